-- summary: "Ranks wait inside NCCL and the traces do not tell for whom."
-- grain: one finding
-- reads: [facts.wait_finding]
-- columns_like: facts.wait_finding
-- columns:
--   severity: {doc: "`error`; `warning` where nobody is named, `info` for those that only wait."}
SELECT f.*, CASE WHEN f.told = 'waits_propagated' THEN 'info' WHEN len(f.ranks) > 0 THEN 'error' ELSE 'warning' END AS severity
FROM facts.wait_finding AS f
WHERE f.told = 'waits_unclear'
