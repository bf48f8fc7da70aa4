-- summary: "A communicator is slower than others of the same size at the same operation."
-- grain: one finding
-- reads: [facts.perf_finding]
-- columns_like: facts.perf_finding
-- columns:
--   severity: {doc: "`error` where a rank is named; else `warning`."}
SELECT f.*, CASE WHEN f.told = 'rank_comes_late' AND len(f.ranks) > 0 THEN 'error' ELSE 'warning' END AS severity
FROM facts.perf_finding AS f
WHERE f.told = 'slower_than_its_peers'
