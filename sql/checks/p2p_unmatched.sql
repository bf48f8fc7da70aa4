-- summary: A send whose receive was never posted, or the reverse, or a pair of unequal sizes.
-- grain: one finding
-- reads: [facts.finding]
-- rules: [L6, V3, V4]
-- columns_like: facts.finding
-- columns:
--   severity: {doc: "`error`; `warning` where it is not part of the verdict."}
SELECT
  f.*,
  CASE WHEN f.root THEN 'error' ELSE 'warning' END AS severity
FROM facts.finding AS f
WHERE f.category = 'p2p_unmatched'
