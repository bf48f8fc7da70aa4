-- summary: "The verdict on waits inside NCCL: the class of the largest root, and the ranks of all roots."
-- grain: one row
-- reads: [facts.wait_finding]
-- columns:
--   category: {doc: "`culprit`, `receiver_congested`, `network` or `insufficient_evidence`; NULL when the waits are balanced."}
--   culprit_ranks: {doc: "Ranks it comes from, ascending; both ends of a link; empty where nothing tells the global ranks."}
--   found: {doc: Names of checks that have rows.}
SELECT
  arg_max(category, {named: told <> 'waits_unclear', wait: wait_s}) FILTER (root) AS category,
  coalesce(list_sort(list_distinct(flatten(list(ranks) FILTER (root)))), []) AS culprit_ranks,
  coalesce(list(DISTINCT told), []) AS found
FROM facts.wait_finding
