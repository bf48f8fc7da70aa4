-- summary: "What the traces of NCCL did not show, and what would have settled it."
-- grain: one gap
-- reads: [nccl.proxy_ops, python.collection_note, facts.proxy_edge, facts.proxy_turn, facts.wait_cause, facts.wait_finding, facts.wait_root]
-- columns:
--   kind: {doc: "Short fixed word; the skill has words for it."}
--   ranks: {doc: "Global ranks it is about; empty where it is about all, or they are not known."}
--   detail: {doc: What exactly.}
--   matters: {doc: It could change the verdict.}
WITH loose AS (
  SELECT coalesce(1 - coalesce((SELECT sum(ns) FROM facts.wait_root), 0) / nullif(sum(ns), 0), 0) AS share FROM facts.wait_cause
),
untraced AS (
  SELECT comm_hash, rank FROM (SELECT comm_hash, sender AS rank FROM facts.proxy_edge UNION SELECT comm_hash, receiver FROM facts.proxy_edge)
  EXCEPT SELECT comm_hash, rank FROM facts.proxy_turn
),
gap AS (
  SELECT 'no_trace' AS kind, NULL::BIGINT AS rank,
    'rank ' || string_agg(rank, ', ' ORDER BY rank) || ' of ' || comm_hash AS detail, (SELECT share > 0.1 FROM loose) AS matters
  FROM untraced GROUP BY comm_hash
  UNION ALL
  SELECT 'no_known_end', NULL, round(100 * share)::BIGINT || ' %', true FROM loose WHERE share >= 0.1 AND EXISTS (FROM facts.wait_finding)
  UNION ALL
  SELECT 'one_operation', NULL, NULL, true FROM facts.wait_finding WHERE root HAVING max(seqs) = 1
  UNION ALL
  SELECT 'no_number', NULL, count(*)::VARCHAR, false FROM {{ nccl }}.proxy_ops WHERE seq IS NULL HAVING count(*) > 0
  UNION ALL
  SELECT DISTINCT 'ranks_unmapped', NULL::BIGINT, group_name, true FROM facts.wait_finding WHERE root AND len(comm_ranks) > 0 AND len(ranks) = 0
  UNION ALL
  SELECT DISTINCT 'no_net_qp', NULL::BIGINT, NULL, false FROM facts.wait_finding WHERE told = 'slow_link'
  UNION ALL
  SELECT kind, NULL, message, kind IN ('unreadable', 'cut_off') FROM {{ python }}.collection_note WHERE severity <> 'info' AND snapshot_id LIKE '%-nccl-%'
)
SELECT kind, coalesce(list(DISTINCT rank) FILTER (rank IS NOT NULL), []) AS ranks, detail, bool_or(matters) AS matters
FROM gap GROUP BY kind, detail
ORDER BY matters DESC, kind, detail
