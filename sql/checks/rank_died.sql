-- summary: "A log says that a process ended before anybody ran out of time."
-- grain: one finding
-- reads: [facts.finding]
-- rules: [V9]
-- columns_like: facts.finding
-- columns:
--   severity: {doc: "`error`; `warning` where it is not part of the verdict."}
SELECT
  f.*,
  CASE WHEN f.root THEN 'error' ELSE 'warning' END AS severity
FROM facts.finding AS f
WHERE f.category = 'rank_died'
