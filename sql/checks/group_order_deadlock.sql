-- summary: Ranks wait for each other in a circle across groups or p2p pairs.
-- grain: one finding
-- reads: [facts.cycle, facts.finding, facts.reach, facts.scene, facts.suspect]
-- rules: [V3]
-- columns_like: facts.finding
-- columns:
--   severity: {doc: "`error`; `warning` where it is not part of the verdict."}
--   settled_by: {doc: "`vote` (the others entered these groups in another order) or `nothing` (the whole circle)."}
--   circle: {doc: "What the circle consists of: who waits in which operation."}
WITH chosen AS (SELECT coalesce(bool_or(ignoring), false) AS ignoring FROM facts.suspect WHERE event IS NOT NULL),
part AS (
  SELECT there.event, list(struct_pack(ranks := s.waiting, label := s.label) ORDER BY s.waiting) AS circle
  FROM facts.reach AS there
  JOIN facts.reach AS back ON back.ignoring = there.ignoring AND back.event = there.reached AND back.reached = there.event
  JOIN facts.scene AS s ON s.event = there.reached
  WHERE there.ignoring = (SELECT ignoring FROM chosen)
  GROUP BY there.event
)
SELECT
  f.*,
  CASE WHEN f.root THEN 'error' ELSE 'warning' END AS severity,
  (SELECT any_value(c.settled_by) FROM facts.cycle AS c WHERE c.event = f.event) AS settled_by,
  p.circle
FROM facts.finding AS f
LEFT JOIN part AS p ON p.event = f.event
WHERE f.category = 'group_order_deadlock'
