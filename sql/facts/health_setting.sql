-- summary: "Sizes of Flight Recorders that are a mistake: off, or so large that somebody meant bytes."
-- grain: one rank whose recorder is set wrongly
-- optional: {cluster.nodes: cluster.nodes, facts.ring: python.torch_nccl_dump}
-- params:
--   most_entries: {type: integer, default: 1000000, doc: "More entries than this nobody wants: a dump of a million is hundreds of MB."}
-- columns:
--   rank: {doc: Global rank.}
--   kind: {doc: "`bytes_meant` or `off`."}
--   entries: {unit: entries, doc: "The size that was set; where nothing says it, what the dump holds."}
--   was_set: {doc: "The size was set; false where it is what the dump holds."}
WITH said AS (
  SELECT NULL::BIGINT AS rank, NULL::BIGINT AS entries, NULL::BOOLEAN AS was_set WHERE false
  {% if 'cluster.nodes' in has %}
  UNION ALL
  SELECT rank, arg_max(recorder_entries, snapshot_id), true FROM {{ cluster }}.nodes WHERE recorder_entries IS NOT NULL GROUP BY rank
  {% endif %}
  {% if 'python.torch_nccl_dump' in has %}
  UNION ALL
  SELECT rank, entries, false FROM facts.ring WHERE entries > 0
  {% endif %}
)
SELECT rank, CASE WHEN entries = 0 THEN 'off' ELSE 'bytes_meant' END AS kind, entries, was_set
FROM said
WHERE entries > $most_entries OR entries = 0
QUALIFY row_number() OVER (PARTITION BY rank ORDER BY was_set DESC) = 1
