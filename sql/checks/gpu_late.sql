-- summary: "A rank makes the others wait: its GPU is late with its data or it came late."
-- grain: one finding
-- reads: [facts.wait_finding]
-- columns_like: facts.wait_finding
-- columns:
--   severity: {doc: "`error`; `warning` where nobody is named, `info` for those that only wait."}
SELECT f.*, CASE WHEN f.told = 'waits_propagated' THEN 'info' WHEN len(f.ranks) > 0 THEN 'error' ELSE 'warning' END AS severity
FROM facts.wait_finding AS f
WHERE f.told = 'gpu_late'
