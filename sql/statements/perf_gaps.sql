-- summary: "What the timings did not show, and what would have settled it."
-- grain: one gap
-- reads: [python.collection_note, facts.perf_call, facts.perf_finding, facts.perf_op]
-- columns:
--   kind: {doc: "Short fixed word; the skill has words for it."}
--   ranks: {doc: "Global ranks it is about; empty where it is about all, or they are not known."}
--   detail: {doc: What exactly.}
--   matters: {doc: It could change the verdict.}
WITH gap AS (
  SELECT 'ranks_not_seen' AS kind, 'of ' || any_value(comm_name) || ' ' || count(DISTINCT member) || ' of ' || coalesce(max(n_ranks)::VARCHAR, 'an unknown number of') || ' ranks' AS detail, true AS matters
  FROM facts.perf_call GROUP BY comm HAVING count(DISTINCT member) IS DISTINCT FROM max(n_ranks)
  UNION ALL
  SELECT 'cpu_timing', string_agg(DISTINCT coll_func, ', ' ORDER BY coll_func), true FROM facts.perf_call WHERE by_cpu HAVING count(*) > 0
  UNION ALL
  SELECT 'few_calls', max(seen_calls)::VARCHAR, true FROM (SELECT count(*) AS seen_calls FROM facts.perf_op GROUP BY comm, coll_func, size_class) HAVING max(seen_calls) < 3
  UNION ALL
  SELECT 'no_inspector', NULL, false FROM facts.perf_call HAVING count(*) > 0 AND bool_and(source = 'flight_recorder')
  UNION ALL
  SELECT 'no_timing', NULL, true WHERE NOT EXISTS (FROM facts.perf_call)
  UNION ALL
  SELECT 'sizes_unknown', NULL, false FROM facts.perf_call HAVING count(*) > 0 AND count(size_bytes) = 0
  UNION ALL
  SELECT DISTINCT 'ranks_unmapped', group_name, true FROM facts.perf_finding WHERE len(members) > 0 AND len(ranks) = 0
  {% if 'nccl.proxy_ops' not in has %}
  UNION ALL SELECT DISTINCT 'no_proxy_trace', NULL, false FROM facts.perf_finding WHERE category LIKE 'slow%'
  {% endif %}
  UNION ALL
  SELECT kind, message, kind = 'unreadable' FROM {{ python }}.collection_note WHERE severity <> 'info' AND snapshot_id LIKE '%-nccl-%'
)
SELECT kind, []::BIGINT[] AS ranks, detail, bool_or(matters) AS matters
FROM gap GROUP BY kind, detail
ORDER BY matters DESC, kind, detail
