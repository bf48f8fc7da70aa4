-- summary: "Ranks have launched different numbers of collectives and that does not tell who is to blame."
-- grain: one finding
-- reads: [facts.ras_finding]
-- columns_like: facts.ras_finding
-- columns:
--   severity: {doc: "`error`; `warning` where it is not part of the verdict, or names nobody."}
SELECT f.*, CASE WHEN f.root AND len(f.ranks) > 0 THEN 'error' ELSE 'warning' END AS severity
FROM facts.ras_finding AS f
WHERE f.told = 'ras_unclear'
