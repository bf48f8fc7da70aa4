-- summary: "Where each rank stands in each group as the logs say: what it waits in, how far it came."
-- grain: one (group, rank) that the logs tell of
-- reads: [facts.log_line]
-- columns:
--   grp: {doc: "Name of the group; `0` is the default group."}
--   label: {doc: What people call the group.}
--   rank: {doc: Global rank.}
--   seq: {doc: "What it waited in until the timeout; NULL where it did not time out in this group."}
--   op: {doc: Operation it waited in.}
--   numel_in: {doc: Elements put in.}
--   numel_out: {doc: Elements got out.}
--   ran_ms: {unit: ms, doc: How long it waited.}
--   enq: {doc: Newest number it handed out.}
--   done: {doc: Newest number it saw finish.}
--   group_size: {unit: ranks, doc: "Members, as sizes of gathers or NCCL say; NULL where nothing does."}
--   path: {doc: File that says so.}
--   line: {doc: Line that says so.}
--   text: {doc: What it says.}
WITH status AS (
  SELECT rank, seq, grp, any_value(label) AS label, max(last_enqueued) AS enq, max(last_completed) AS done
  FROM facts.log_line
  WHERE kind IN ('failure_status', 'exception_status', 'timeout_status') AND rank IS NOT NULL AND grp IS NOT NULL
  GROUP BY ALL
),
work AS (  -- the line with the operation does not say the group, the one with the group not the operation
  SELECT rank, seq, any_value(op) AS op, any_value(numel_in) AS numel_in, any_value(numel_out) AS numel_out, max(ran_ms) AS ran_ms,
    arg_min(path, line) AS path, min(line) AS line, arg_min(text, line) AS text
  FROM facts.log_line
  WHERE timed_out AND rank IS NOT NULL AND seq IS NOT NULL
  GROUP BY ALL
),
place AS (SELECT seq, mode(grp) AS grp, mode(label) AS label FROM status GROUP BY seq HAVING count(DISTINCT grp) = 1),
sole AS (  -- a line without a group is about the only one there is; among several it tells nothing about its place
  SELECT CASE count(DISTINCT grp) WHEN 0 THEN '0' WHEN 1 THEN any_value(grp) END AS grp, any_value(label) AS label FROM status
),
stand AS (
  SELECT coalesce(s.grp, p.grp, o.grp) AS grp, coalesce(s.label, p.label, o.label) AS label, w.rank, w.seq, w.op, w.numel_in, w.numel_out,
    w.ran_ms, s.enq, s.done, w.path, w.line, w.text
  FROM work AS w CROSS JOIN sole AS o
  LEFT JOIN status AS s ON s.rank = w.rank AND s.seq = w.seq
  LEFT JOIN place AS p ON p.seq = w.seq
  WHERE coalesce(w.op, '') NOT IN ('SEND', 'RECV', 'COALESCED')  -- p2p counts otherwise, in the same fields
  UNION ALL BY NAME
  SELECT coalesce(grp, '0') AS grp, any_value(label) AS label, rank, max(last_enqueued) AS enq, max(last_completed) AS done,
    arg_max(path, line) AS path, max(line) AS line, arg_max(text, line) AS text
  FROM facts.log_line
  WHERE kind IN ('dump_received', 'dump_received_old', 'work_update') AND rank IS NOT NULL AND last_enqueued IS NOT NULL
  GROUP BY ALL
),
size AS (
  SELECT grp, max(CASE
      WHEN op IN ('_ALLGATHER_BASE', 'ALLGATHER') AND numel_in > 0 AND numel_out % numel_in = 0 THEN numel_out // numel_in
      WHEN op = '_REDUCE_SCATTER_BASE' AND numel_out > 0 AND numel_in % numel_out = 0 THEN numel_in // numel_out END) AS members
  FROM stand GROUP BY grp
)
SELECT
  s.grp, coalesce(any_value(s.label), CASE WHEN s.grp = '0' THEN 'default_pg' ELSE 'group ' || s.grp END) AS label, s.rank,
  min(s.seq) AS seq, arg_min(s.op, s.seq) AS op, arg_min(s.numel_in, s.seq) AS numel_in, arg_min(s.numel_out, s.seq) AS numel_out,
  arg_min(s.ran_ms, s.seq) AS ran_ms, max(s.enq) AS enq, max(s.done) AS done,
  coalesce(any_value(z.members), CASE WHEN s.grp = '0' THEN
    (SELECT max(world_size) FROM facts.log_line WHERE kind IN ('nccl_comm_rank', 'store_barrier', 'nccl_coll')) END) AS group_size,
  arg_min(s.path, s.line) AS path, min(s.line) AS line, arg_min(s.text, s.line) AS text
FROM stand AS s LEFT JOIN size AS z USING (grp)
WHERE s.grp IS NOT NULL
GROUP BY s.grp, s.rank
