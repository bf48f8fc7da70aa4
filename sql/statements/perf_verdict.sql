-- summary: "The verdict on the cost of collectives: what costs most, and the late ranks."
-- grain: one row
-- reads: [facts.perf_call, facts.perf_finding]
-- columns:
--   category: {doc: "`late_rank`, `slow_communicator` or `slow_collective`; `insufficient_evidence` without timings; NULL when nothing stands out."}
--   culprit_ranks: {doc: "Late ranks, or all of a slow communicator if no rank is late; ascending."}
--   found: {doc: Names of checks that have rows.}
SELECT
  coalesce(arg_max(category, lost_s), CASE WHEN NOT EXISTS (FROM facts.perf_call) THEN 'insufficient_evidence' END) AS category,
  list_sort(list_distinct(flatten(coalesce(list(ranks) FILTER (category = (SELECT arg_max(category, lost_s) FROM facts.perf_finding)), [])))) AS culprit_ranks,
  coalesce(list(DISTINCT told), []) AS found
FROM facts.perf_finding
