-- summary: "The size of a Flight Recorder is a mistake."
-- grain: one finding
-- reads: [facts.health_finding]
-- columns_like: facts.health_finding
SELECT * FROM facts.health_finding WHERE told = 'recorder_settings'
