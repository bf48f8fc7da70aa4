-- summary: "A finding of another skill, one of the worst."
-- grain: one finding
-- reads: [facts.health_finding]
-- columns_like: facts.health_finding
SELECT * FROM facts.health_finding WHERE told = 'worst_finding'
