-- summary: "What stacks alone did not show, and what would have settled it; what could change the verdict comes first."
-- grain: one gap
-- reads: [python.collection_note, facts.hang, facts.look, facts.stand]
-- optional: {cluster.nodes: cluster.nodes, facts.member: python.torch_nccl_dump, python.backtrace: python.torch_nccl_dump}
-- columns:
--   kind: {doc: "Short fixed word; the skill has words for it."}
--   ranks: {doc: "Ranks it is about; empty where it is about all."}
--   detail: {doc: What exactly.}
--   matters: {doc: It could change the verdict.}
WITH found AS (SELECT count(*) > 0 AS something, coalesce(bool_or(rank IS NULL AND in_verdict), false) AS nobody FROM facts.hang),
expected AS (
  SELECT rank FROM facts.stand
  {% if 'cluster.nodes' in has %}
  UNION SELECT unnest(range(least(coalesce(max(world_size), 0), 1_048_576))) FROM {{ cluster }}.nodes WHERE snapshot_id LIKE '%-stacks-%'
  {% endif %}
  {% if 'python.torch_nccl_dump' in has %}
  UNION SELECT rank FROM facts.member
  {% endif %}
),
gap AS (
  SELECT 'no_stack' AS kind, e.rank, NULL::VARCHAR AS detail, f.something AS matters
  FROM expected AS e, found AS f WHERE NOT EXISTS (FROM facts.stand AS s WHERE s.rank = e.rank AND (s.stack IS NOT NULL OR s.spot IN ('stopped', 'dead', 'silent')))
  UNION ALL
  SELECT n.kind, n.rank, n.message, n.severity = 'error' OR n.kind = 'no_rights'
  FROM {{ python }}.collection_note AS n
  WHERE (n.severity <> 'info' OR n.kind = 'no_rights') AND n.snapshot_id LIKE '%-stacks-%' AND n.kind NOT IN ('dead', 'stopped', 'silent')
    AND (n.snapshot_id IN (SELECT snapshot_id FROM facts.look) OR NOT EXISTS (FROM facts.look))
  UNION ALL
  SELECT 'one_look', NULL, NULL, f.something FROM found AS f WHERE f.something AND (SELECT max(looks) FROM facts.stand) = 1
  {% if 'python.torch_nccl_dump' in has %}
  UNION ALL
  SELECT DISTINCT 'unknown_rank', rank, NULL, true FROM {{ python }}.backtrace WHERE rank > (SELECT max(rank) FROM facts.member)
  {% else %}
  UNION ALL SELECT 'no_dumps', NULL, NULL, f.nobody FROM found AS f WHERE f.something
  {% endif %}
  {% if 'cpu.utilization' not in has %}
  UNION ALL SELECT 'no_states', NULL, NULL, false FROM found AS f WHERE f.something
  {% endif %}
  {% if 'process.kmsg' not in has %}
  UNION ALL SELECT 'no_kernel_log', NULL, NULL, false FROM found AS f WHERE f.something
  {% endif %}
)
SELECT kind, coalesce(list_sort(list(DISTINCT rank) FILTER (rank IS NOT NULL)), []) AS ranks, string_agg(DISTINCT detail, '; ' ORDER BY detail) AS detail, bool_or(matters) AS matters
FROM gap
GROUP BY kind, CASE WHEN kind NOT IN ('no_rights') THEN detail END
ORDER BY matters DESC, kind, detail
