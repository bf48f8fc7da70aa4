-- summary: A member entered later than the earliest by more than the timeout.
-- grain: one finding
-- reads: [facts.finding, facts.late]
-- rules: [V8]
-- columns_like: facts.finding
-- columns:
--   severity: {doc: "`error`; `warning` where it is not part of the verdict."}
--   late_s: {unit: s, doc: "How much later the first accused came, clocks allowed for."}
--   timeout_s: {unit: s, doc: What it had.}
SELECT
  f.*,
  CASE WHEN f.root THEN 'error' ELSE 'warning' END AS severity,
  l.late_ns / 1e9 AS late_s,
  l.timeout_ns / 1e9 AS timeout_s
FROM facts.finding AS f
LEFT JOIN (SELECT DISTINCT ON (event, rank) * FROM facts.late) AS l ON l.event = f.event AND l.rank = f.ranks[1]
WHERE f.category = 'late_arrival'
