-- summary: "What the logs say of a rank that may tell why it stayed away: an exception, a death, a watchdog that hangs."
-- grain: one rank of which logs say such a thing
-- reads: [facts.log_line]
-- columns:
--   rank: {doc: Global rank.}
--   said: {doc: "The first such line, with its place."}
SELECT rank, arg_min(regexp_extract(path, '([^/]*/)?[^/]*$') || ':' || line || ': ' || text[:200], line) AS said
FROM facts.log_line
WHERE rank IS NOT NULL AND NOT hurt
  AND kind IN ('gil', 'heartbeat_stuck', 'heartbeat_old', 'exception', 'uncaught', 'crash', 'cuda_oom', 'elastic_failure')
GROUP BY rank
