-- summary: Ranks wait for each other in a circle across groups or p2p pairs.
-- grain: one finding
-- reads: [facts.cycle, facts.finding]
-- rules: [V3]
-- columns_like: facts.finding
-- columns:
--   severity: {doc: "`error`; `warning` where it is not part of the verdict."}
--   settled_by: {doc: "`vote` (the others entered these groups in another order) or `nothing` (the whole circle)."}
SELECT
  f.*,
  CASE WHEN f.root THEN 'error' ELSE 'warning' END AS severity,
  (SELECT any_value(c.settled_by) FROM facts.cycle AS c WHERE c.event = f.event) AS settled_by
FROM facts.finding AS f
WHERE f.category = 'group_order_deadlock'
