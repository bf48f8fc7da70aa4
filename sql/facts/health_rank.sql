-- summary: "Ranks that left something, and ranks that must exist."
-- grain: one rank
-- reads: [facts.health_table]
-- optional: {facts.dump: python.torch_nccl_dump, facts.member: python.torch_nccl_dump}
-- columns:
--   rank: {doc: Global rank.}
--   seen: {doc: "It left a dump; without dumps, anything."}
WITH expected AS (
  SELECT unnest(range(max(world_size) FILTER (world_size <= 1_048_576))) AS rank FROM facts.health_table  -- a size beyond that is a mistake
  {% if 'python.torch_nccl_dump' in has %}
  UNION SELECT rank FROM facts.member
  {% endif %}
),
seen AS (
  {% if 'python.torch_nccl_dump' in has %}
  SELECT rank FROM facts.dump
  {% else %}
  SELECT unnest(ranks) AS rank FROM facts.health_table WHERE name NOT IN ('cluster.nodes', 'python.collection_note')
  {% endif %}
)
SELECT rank, bool_or(seen) AS seen
FROM (SELECT rank, true AS seen FROM seen UNION ALL SELECT rank, false FROM expected)
WHERE rank IS NOT NULL
GROUP BY rank
