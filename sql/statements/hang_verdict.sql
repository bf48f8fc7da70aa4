-- summary: "The verdict on stacks: one category and the ranks that are waited for."
-- grain: one row
-- reads: [facts.hang]
-- rules: [V9]
-- columns:
--   category: {doc: "Category of the diagnosis; NULL when nothing was found."}
--   culprit_ranks: {doc: "Accused ranks, ascending; empty where nobody is."}
SELECT arg_min(category, nth) FILTER (in_verdict) AS category,
  coalesce(list_sort(list(DISTINCT rank) FILTER (in_verdict AND rank IS NOT NULL)), []) AS culprit_ranks
FROM facts.hang
