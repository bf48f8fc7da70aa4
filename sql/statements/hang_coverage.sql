-- summary: Whose stacks were looked at.
-- grain: one row
-- reads: [python.backtrace, facts.stand]
-- optional: {cluster.nodes: cluster.nodes, facts.member: python.torch_nccl_dump}
-- columns:
--   ranks_seen: {doc: "Ranks whose stack was seen, ascending."}
--   ranks_expected: {doc: "Ranks that must exist, as variables, dumps or stacks say, ascending."}
--   ranks_missing: {doc: "Expected, not seen."}
--   records: {unit: frames, doc: Frames.}
--   groups: {unit: groups, doc: "Always 0: a stack names no group."}
WITH expected AS (
  SELECT rank FROM facts.stand
  {% if 'cluster.nodes' in has %}
  UNION SELECT unnest(range(least(coalesce(max(world_size), 0), 1_048_576))) FROM {{ cluster }}.nodes WHERE snapshot_id LIKE '%-stacks-%'
  {% endif %}
  {% if 'python.torch_nccl_dump' in has %}
  UNION SELECT rank FROM facts.member
  {% endif %}
),
seen AS (SELECT rank FROM facts.stand WHERE stack IS NOT NULL)
SELECT
  (SELECT coalesce(list_sort(list(rank)), []) FROM seen) AS ranks_seen,
  (SELECT coalesce(list_sort(list(rank)), []) FROM expected) AS ranks_expected,
  (SELECT coalesce(list_sort(list(rank)), []) FROM expected ANTI JOIN seen USING (rank)) AS ranks_missing,
  (SELECT count(*) FROM {{ python }}.backtrace) AS records,
  0::BIGINT AS groups
