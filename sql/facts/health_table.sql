-- summary: "Which tables have rows, of which ranks, and how new they are."
-- grain: one table that has rows
-- every_table: true
-- optional: {facts.op: python.torch_nccl_dump, facts.ring: python.torch_nccl_dump}
-- columns:
--   name: {doc: Name of the table.}
--   row_count: {unit: rows, doc: Rows in it.}
--   ranks: {doc: "The ranks they are of, ascending; empty where rows do not say their rank."}
--   world_size: {unit: ranks, doc: "The largest size of the job that a row says; NULL where none does."}
--   newest_ns: {unit: ns since epoch, doc: "The newest moment a row is from, by the clock of its host; NULL where none is said."}
--   behind_s: {unit: s, doc: "How much older that is than the newest of all tables; NULL where it is not known."}
WITH stock AS (
  SELECT NULL::VARCHAR AS name, NULL::BIGINT AS row_count, NULL::BIGINT[] AS ranks, NULL::BIGINT AS world_size, NULL::BIGINT AS newest_ns WHERE false
  {% for table in tables %}
  UNION ALL
  SELECT
    '{{ table.name }}', count(*),
    {{ 'list_sort(list(DISTINCT rank) FILTER (rank IS NOT NULL))' if table.ranked else 'NULL' }},
    {{ 'max(world_size)' if table.sized else 'NULL' }},
    {% if table.clocks %}greatest({% for column, unit_ns in table.clocks %}max({{ column }}) * {{ unit_ns }}{{ ', ' if not loop.last }}{% endfor %}){% else %}NULL{% endif %}
  FROM {{ table.relation }}
  {% endfor %}
  {% if 'python.torch_nccl_dump' in has %}
  UNION ALL
  SELECT 'python.torch_nccl_flight_record', sum(entries), list_sort(list(rank) FILTER (entries > 0)), NULL, (SELECT max(created_ns) FROM facts.op)
  FROM facts.ring
  {% endif %}
)
SELECT
  name, row_count::BIGINT AS row_count, coalesce(ranks, []) AS ranks, world_size, newest_ns::BIGINT AS newest_ns,
  ((max(newest_ns) OVER () - newest_ns) / 1e9)::DOUBLE AS behind_s
FROM stock
WHERE row_count > 0
