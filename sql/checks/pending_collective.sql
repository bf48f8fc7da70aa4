-- summary: "A collective has been waited in for more than a minute."
-- grain: one finding
-- reads: [facts.health_finding]
-- columns_like: facts.health_finding
SELECT * FROM facts.health_finding WHERE told = 'pending_collective'
