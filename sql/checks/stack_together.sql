-- summary: "All ranks stand in the same place, so none of them stands out."
-- grain: one finding
-- reads: [facts.hang_finding]
-- columns_like: facts.hang_finding
-- columns:
--   severity: {doc: "`error`; `warning` where it names nobody, or is not part of the verdict."}
SELECT f.*, CASE WHEN f.root AND len(f.ranks) > 0 THEN 'error' ELSE 'warning' END AS severity
FROM facts.hang_finding AS f
WHERE f.told = 'stack_together'
