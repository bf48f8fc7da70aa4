-- summary: All entered with one signature, none finished, and nobody is held up elsewhere.
-- grain: one finding
-- reads: [facts.finding]
-- rules: [V7]
-- columns_like: facts.finding
-- columns:
--   severity: {doc: "`error`; `warning` where it is not part of the verdict."}
SELECT
  f.*,
  CASE WHEN f.root THEN 'error' ELSE 'warning' END AS severity
FROM facts.finding AS f
WHERE f.category = 'all_joined_none_finished'
