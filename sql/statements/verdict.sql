-- summary: "The verdict: one category and the smallest set of ranks that holds the fault."
-- grain: one row
-- reads: [facts.suspect]
-- optional: {facts.ras_suspect: nccl.ras_status}
-- rules: [V9]
-- columns:
--   category: {doc: "Category of the diagnosis; NULL when nothing was found."}
--   culprit_ranks: {doc: "Accused ranks, ascending; empty where nobody is."}
--   found: {doc: "Names of checks that have rows; the others need not run."}
SELECT
  arg_min(category, nth) FILTER (in_verdict) AS category,
  -- sizes that are wrong on all members alike accuse nobody
  CASE WHEN bool_or(rank IS NULL AND nth = 3) FILTER (in_verdict) THEN []::BIGINT[]
    ELSE coalesce(list_sort(list(DISTINCT rank) FILTER (in_verdict AND rank IS NOT NULL)), []) END AS culprit_ranks,
  coalesce(list(DISTINCT category), []){% if 'nccl.ras_status' in has %} || (SELECT coalesce(list(DISTINCT told), []) FROM facts.ras_suspect){% endif %} AS found
FROM facts.suspect
