-- summary: "What the logs say outright: whose device failed, who died, that a connection broke; not what follows from a timeout."
-- grain: one line that says so
-- reads: [facts.log_line]
-- rules: [V9]
-- columns:
--   category: {doc: "`device_error`, `rank_died` or `network_error`."}
--   rank: {doc: The rank; NULL where the log does not say it.}
--   path: {doc: File that says so.}
--   line: {doc: Line that says so.}
--   text: {doc: What it says.}
WITH victim AS (SELECT DISTINCT rank FROM facts.log_line WHERE hurt AND rank IS NOT NULL),
busy AS (SELECT DISTINCT rank FROM facts.log_line WHERE timed_out AND rank IS NOT NULL),
first_out AS (SELECT min(logged_at) FILTER (logged_at LIKE '__-__ %') AS moment, count(*) AS n FROM facts.log_line WHERE timed_out),
agents AS (SELECT count(*) > 0 AS any_seen FROM facts.log_line WHERE kind IN ('elastic_failure', 'elastic_failed')),
died AS (  -- the agents' first failures, but for those they caused themselves and those that came after a timeout
  SELECT rank, path, line, text, logged_at, exit_code < 0 OR exit_code > 128 AS by_signal
  FROM facts.log_line
  WHERE kind = 'elastic_failure' AND is_first AND exit_code NOT IN (0, -15, 143, -6, 134, -2, 130) AND rank IS NOT NULL
    AND rank NOT IN (SELECT rank FROM victim)
    AND NOT coalesce(replace(logged_at[6:], '_', ' ') > (SELECT moment FROM first_out), false)
)
SELECT 'device_error' AS category, rank, path, line, text FROM facts.log_line
WHERE (kind IN ('cuda_error', 'n2_cuda', 'nccl_cuda', 'xid') OR (kind = 'watchdog_terminated' AND text LIKE '%CUDA error%'))
  AND NOT hurt_before AND text NOT ILIKE '%out of memory%' AND text NOT ILIKE '%shutting down%'
UNION ALL  -- of the agents' first failures those by a signal, else the earliest: the others follow
SELECT 'rank_died', rank, path, line, text FROM died
WHERE by_signal OR (NOT (SELECT bool_or(by_signal) FROM died) AND logged_at IS NOT DISTINCT FROM (SELECT min(logged_at) FROM died))
UNION ALL
SELECT 'rank_died', rank, path, line, text FROM facts.log_line
WHERE NOT hurt_before AND (kind IN ('cuda_oom', 'crash') OR (kind IN ('cuda_error', 'nccl_cuda') AND text ILIKE '%out of memory%'))
UNION ALL  -- Python says itself what ends a process; what somebody logs may have been dealt with
SELECT 'rank_died', rank, path, line, text FROM facts.log_line AS l
WHERE kind IN ('exception', 'uncaught') AND NOT hurt AND NOT hurt_before AND rank IS NOT NULL AND rank NOT IN (SELECT rank FROM busy)
  AND (kind = 'uncaught' OR (SELECT any_seen FROM agents) OR EXISTS (FROM busy AS b WHERE b.rank <> l.rank))
UNION ALL
SELECT 'rank_died', unnest(ranks), path, line, text FROM facts.log_line
WHERE kind = 'scheduler_end' AND NOT (SELECT any_seen FROM agents) AND (
  regexp_matches(text, 'Segmentation|Bus error|Out Of Memory|signal (7|9|11)\b')
  OR (len(ranks) = 1 AND text LIKE '%Killed%' AND EXISTS (FROM facts.log_line WHERE kind = 'oom_killed'))
  OR (len(ranks) = 1 AND text LIKE '%Exited with exit code%' AND (SELECT n = 0 FROM first_out) AND ranks[1] NOT IN (SELECT rank FROM victim)
    AND line = (SELECT min(s.line) FROM facts.log_line AS s WHERE s.kind = 'scheduler_end')))
UNION ALL
SELECT 'rank_died', rank, path, line, text FROM facts.log_line
WHERE kind IN ('ray_died', 'oom_killed', 'node_failed')
  OR (kind = 'elastic_failed' AND exit_code IN (-4, -7, -8, -9, -11) AND NOT EXISTS (FROM facts.log_line WHERE kind = 'elastic_failure'))
UNION ALL  -- before anybody ran out of time; afterwards connections close because processes end
SELECT 'network_error', NULL, path, line, text FROM facts.log_line AS l
WHERE (kind IN ('nccl_closed', 'nccl_ib', 'n2_async') OR (kind = 'gloo_peer' AND text NOT LIKE 'Timed out%')
    OR (kind = 'unique_id' AND NOT regexp_matches(text, '[Tt]ime'))
    OR (kind IN ('async_error', 'nccl_error_kind') AND regexp_matches(text, 'remote|network|Remote|System')))
  AND NOT EXISTS (FROM facts.log_line AS t
    WHERE (t.timed_out OR t.kind LIKE 'dump_received%')
      AND CASE WHEN t.path = l.path THEN t.line < l.line ELSE coalesce(t.clock <= l.clock, true) END)
