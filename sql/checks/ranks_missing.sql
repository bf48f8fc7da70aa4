-- summary: "Ranks that must exist left nothing."
-- grain: one finding
-- reads: [facts.health_finding]
-- columns_like: facts.health_finding
SELECT * FROM facts.health_finding WHERE told = 'ranks_missing'
