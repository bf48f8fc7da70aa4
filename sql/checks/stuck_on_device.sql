-- summary: All entered and peers finished, these members have not, and somebody waits behind them.
-- grain: one finding
-- reads: [facts.block, facts.finding]
-- rules: [P4, V6, L2]
-- columns_like: facts.finding
-- columns:
--   severity: {doc: "`error`; `warning` where it is not part of the verdict, or of a rooted operation, where members may finish one by one."}
SELECT
  f.*,
  CASE WHEN f.root AND NOT EXISTS (FROM facts.block AS b WHERE b.event = f.event AND b.one_way) THEN 'error' ELSE 'warning' END AS severity
FROM facts.finding AS f
WHERE f.category = 'stuck_on_device'
