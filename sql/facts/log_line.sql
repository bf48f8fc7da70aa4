-- summary: "What the newest logs say, with the group each line is about and whether its rank was hurt before."
-- grain: one line of a log that says something
-- reads: [python.torch_nccl_watchdog_log]
-- columns:
--   path: {doc: File.}
--   line: {doc: Number of the line.}
--   rank: {doc: "Global rank the line is about; NULL where the log does not say it."}
--   kind: {doc: What the line is.}
--   grp: {doc: "Name of the group; `0` is the default group; NULL where the line does not say it."}
--   label: {doc: What people call the group.}
--   seq: {doc: Sequence number.}
--   op: {doc: Operation.}
--   numel_in: {doc: Elements put in.}
--   numel_out: {doc: Elements got out.}
--   ran_ms: {unit: ms, doc: How long it had waited.}
--   last_enqueued: {doc: Newest number handed out.}
--   last_completed: {doc: Newest number that finished.}
--   ranks: {doc: "Ranks the line names."}
--   peer_rank: {doc: Another rank the line names.}
--   group_rank: {doc: Rank inside the group.}
--   world_size: {unit: ranks, doc: Members as the line says.}
--   joined: {unit: ranks, doc: How many had come.}
--   comm: {doc: "NCCL's communicator, an address of its process."}
--   device: {doc: CUDA device of the process.}
--   host: {doc: Host the line names.}
--   exit_code: {doc: Exit code.}
--   is_first: {doc: torchrun calls it the first failure.}
--   pid: {doc: Process.}
--   logged_at: {doc: Time as printed.}
--   shape: {doc: Shape as printed.}
--   dtype: {doc: Type as printed.}
--   other_seq: {doc: Sequence number of the other rank.}
--   other_op: {doc: Operation of the other rank.}
--   other_shape: {doc: Shape of the other rank.}
--   other_dtype: {doc: Type of the other rank.}
--   text: {doc: What it says.}
--   clock: {doc: "Time of the newest line above that prints one, month first; NULL where none does."}
--   attempt: {doc: Restarts of the job above this line.}
--   hurt: {doc: "It tells of a victim: a timeout, a peer that went away."}
--   timed_out: {doc: "Its rank ran out of time in a collective, or in a send or receive."}
--   hurt_before: {doc: "A line above it, about the same rank, tells of a victim: this one is a consequence."}
WITH newest AS (
  SELECT *, max(logged_at) FILTER (logged_at LIKE '__-__ %')
      OVER (PARTITION BY path ORDER BY line ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS clock
  FROM {{ python }}.torch_nccl_watchdog_log
  WHERE snapshot_id = (SELECT max(snapshot_id) FROM {{ python }}.torch_nccl_watchdog_log)
),
attempted AS (  -- a restart that went well, or has said nothing yet, hides nothing
  SELECT max(attempt) FILTER (kind NOT IN ('file', 'process', 'elastic_restart', 'nccl_comm_rank', 'nccl_coll', 'work_update', 'shutdown_warning')) AS last FROM newest
),
process AS (  -- which process is which rank: as torchrun's summary or a launcher says, or in NCCL's largest communicator
  SELECT pid, host, arg_max(rank, weight) AS rank
  FROM (
    SELECT pid, host, group_rank AS rank, world_size AS weight FROM newest WHERE kind = 'nccl_comm_rank'
    UNION ALL
    SELECT pid, NULL, rank, 1000000000 FROM newest WHERE rank IS NOT NULL AND kind <> 'nccl_comm_rank'
  )
  WHERE pid IS NOT NULL GROUP BY pid, host
),
anywhere AS (SELECT pid, any_value(rank) AS rank FROM process GROUP BY pid HAVING count(DISTINCT rank) = 1),
line AS (
  SELECT n.* REPLACE (coalesce(n.rank, p.rank, e.rank) AS rank),
    kind IN ('watchdog_timeout', 'blocking_wait', 'failure_status', 'exception_status', 'timeout_status', 'async_error', 'teardown',
             'comm_aborted', 'n2_timeout', 'n2_abort', 'n2_async', 'n2_python', 'gloo_peer', 'monitored_barrier_peer', 'store_barrier',
             'unique_id', 'fingerprint', 'fingerprint_old', 'remote_error')
      OR (kind = 'watchdog_terminated' AND text NOT LIKE '%CUDA error%')
      OR (kind IN ('exception', 'uncaught') AND regexp_matches(text,
        'Dist\w*Error|NCCL|[Gg]loo|c10d|Connection|Broken pipe|[Tt]imed? ?out|ChildFailed|Signal|Interrupt|SystemExit|collectives'))
      AS hurt,
    kind IN ('watchdog_timeout', 'blocking_wait', 'failure_status', 'exception_status', 'timeout_status', 'n2_timeout')
      OR (kind = 'watchdog_terminated' AND seq IS NOT NULL) AS timed_out,
    coalesce(pg_name, CASE WHEN pg_desc = 'default_pg' OR pg_id = 0 THEN '0' END, 'pg ' || pg_id) AS name
  FROM newest AS n CROSS JOIN attempted AS a
  LEFT JOIN process AS p ON p.pid = n.pid AND p.host = n.host
  LEFT JOIN anywhere AS e ON e.pid = n.pid
  WHERE n.kind <> 'file' AND n.attempt IS NOT DISTINCT FROM coalesce(a.last, n.attempt)
)
SELECT
  path, line, rank, kind,
  CASE WHEN name IN ('default_pg', '0') THEN '0' ELSE name END AS grp,
  coalesce(pg_desc, CASE WHEN name IN ('default_pg', '0') THEN 'default_pg' ELSE 'group ' || name END) AS label,
  seq, op, numel_in, numel_out, ran_ms, last_enqueued, last_completed, ranks, peer_rank, group_rank, world_size, joined, comm, device, host,
  exit_code, is_first, pid, logged_at, shape, dtype, other_seq, other_op, other_shape, other_dtype, text, clock, attempt, hurt, timed_out,
  coalesce(bool_or(hurt) OVER (PARTITION BY path, rank ORDER BY line ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), false)
    AND rank IS NOT NULL AS hurt_before
FROM line
