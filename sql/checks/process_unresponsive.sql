-- summary: "A process that is stopped, dead, or does not answer, while others wait."
-- grain: one finding
-- reads: [facts.hang_finding]
-- columns_like: facts.hang_finding
-- columns:
--   severity: {doc: "`error`; `warning` where it names nobody, or is not part of the verdict."}
SELECT f.*, CASE WHEN f.root AND len(f.ranks) > 0 THEN 'error' ELSE 'warning' END AS severity
FROM facts.hang_finding AS f
WHERE f.told = 'process_unresponsive'
