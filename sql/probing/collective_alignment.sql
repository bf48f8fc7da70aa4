-- summary: "On probing's own table: collectives that some ranks have entered and others have not, or that differ between ranks."
-- grain: one (group, collective_seq_id) that is not the same everywhere
-- reads: [python.torch_nccl_flight_record]
-- doc: >-
--   For probing's engine (DataFusion) and its table, which has -1 for unknown and texts for sizes. Groups are told apart by
--   name only, and a job that runs shows its lag here: the verdict is that of `probing -t PID whichrank diagnose`.
-- params:
--   seq_window: {type: integer, default: 200, doc: Newest sequence numbers of each group to look at.}
-- columns:
--   pg_name: {doc: Name of the group.}
--   pg_desc: {doc: What the group is for.}
--   collective_seq_id: {doc: Sequence number in the group.}
--   ranks_seen: {unit: ranks, doc: How many have entered it.}
--   ranks_of_group: {unit: ranks, doc: How many have entered anything of this group.}
--   ranks_behind: {unit: ranks, doc: How many of those have not come as far; NULL where none.}
--   first_rank_behind: {doc: The lowest of them.}
--   op_min: {doc: First operation in alphabetical order.}
--   op_max: {doc: "Last; differs from op_min where ranks called different operations."}
--   input_sizes_min: {doc: First input sizes.}
--   input_sizes_max: {doc: Last input sizes.}
--   state_min: {doc: First state in alphabetical order.}
--   state_max: {doc: Last state.}
WITH newest AS (
  SELECT rank, max(snapshot_id) AS snapshot_id FROM {{ python }}.torch_nccl_flight_record GROUP BY rank
),
entry AS (
  SELECT e.rank, e.pg_name, e.pg_desc, e.collective_seq_id, e.profiling_name, e.state, e.input_sizes
  FROM {{ python }}.torch_nccl_flight_record AS e
  JOIN newest AS n ON n.rank = e.rank AND n.snapshot_id = e.snapshot_id
  WHERE e.is_p2p = 0 AND e.collective_seq_id >= 0
),
reached AS (
  SELECT pg_name, pg_desc, rank, max(collective_seq_id) AS seq FROM entry GROUP BY pg_name, pg_desc, rank
),
ahead AS (SELECT pg_name, pg_desc, max(seq) AS seq, count(*) AS ranks FROM reached GROUP BY pg_name, pg_desc),
called AS (
  SELECT
    pg_name, pg_desc, collective_seq_id, count(DISTINCT rank) AS ranks_seen,
    min(profiling_name) AS op_min, max(profiling_name) AS op_max,
    min(input_sizes) AS input_sizes_min, max(input_sizes) AS input_sizes_max, min(state) AS state_min, max(state) AS state_max
  FROM entry GROUP BY pg_name, pg_desc, collective_seq_id
),
behind AS (
  SELECT c.pg_name, c.pg_desc, c.collective_seq_id, count(*) AS ranks, min(r.rank) AS first_rank
  FROM called AS c
  JOIN reached AS r ON r.pg_name = c.pg_name AND r.pg_desc = c.pg_desc AND r.seq < c.collective_seq_id
  GROUP BY c.pg_name, c.pg_desc, c.collective_seq_id
)
SELECT
  c.pg_name, c.pg_desc, c.collective_seq_id, c.ranks_seen, a.ranks AS ranks_of_group,
  b.ranks AS ranks_behind, b.first_rank AS first_rank_behind,
  c.op_min, c.op_max, c.input_sizes_min, c.input_sizes_max, c.state_min, c.state_max
FROM called AS c
JOIN ahead AS a ON a.pg_name = c.pg_name AND a.pg_desc = c.pg_desc
LEFT JOIN behind AS b
  ON b.pg_name = c.pg_name AND b.pg_desc = c.pg_desc AND b.collective_seq_id = c.collective_seq_id
WHERE c.collective_seq_id > a.seq - $seq_window
  AND (b.ranks IS NOT NULL OR c.op_min <> c.op_max
    OR (c.op_min LIKE '%all_reduce%' AND c.input_sizes_min <> c.input_sizes_max))
ORDER BY c.pg_name, c.pg_desc, c.collective_seq_id
LIMIT 100
