-- summary: Everyone seen waits, and only members that left no dump (or an older one) can hold them up.
-- grain: one finding
-- reads: [facts.finding]
-- rules: [V5, P4, P9]
-- columns_like: facts.finding
-- columns:
--   severity: {doc: "`error`; `warning` where it is not part of the verdict."}
SELECT
  f.*,
  CASE WHEN f.root THEN 'error' ELSE 'warning' END AS severity
FROM facts.finding AS f
WHERE f.category = 'rank_without_dump'
