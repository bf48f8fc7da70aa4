-- summary: A member with a dump never entered what the others wait in, and waits for nothing itself.
-- grain: one finding
-- reads: [facts.finding]
-- rules: [V2, V4]
-- columns_like: facts.finding
-- columns:
--   severity: {doc: "`error`; `warning` where it is not part of the verdict."}
SELECT
  f.*,
  CASE WHEN f.root THEN 'error' ELSE 'warning' END AS severity
FROM facts.finding AS f
WHERE f.category = 'rank_not_joined'
