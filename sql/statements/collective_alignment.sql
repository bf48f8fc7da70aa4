-- summary: "The alignment of all ranks by group and sequence number: who is there, who is not, who differs."
-- grain: one (group, collective_seq_id)
-- reads: [python.torch_nccl_signature, facts.block, facts.member, facts.mismatch, facts.op, facts.peak, facts.position, facts.process_group, facts.signature]
-- rules: [L1, L3, P4]
-- params:
--   seq_window: {type: integer, default: 200, doc: "The newest numbers of each group; a number that somebody waits in is never cut off."}
--   use_global: {type: boolean, default: true, doc: "Look at every rank; false: only at what this host collected."}
-- columns:
--   group_name: {doc: What people call the group.}
--   pg_name: {doc: Its name.}
--   collective_seq_id: {doc: Sequence number in the group.}
--   ranks_seen: {unit: ranks, doc: How many members' dumps hold it.}
--   expected_world_size: {unit: ranks, doc: Members of the group.}
--   op_min: {doc: First operation in alphabetical order.}
--   op_max: {doc: "Last; differs from op_min where members called different operations."}
--   input_sizes_min: {doc: Smallest input sizes.}
--   input_sizes_max: {doc: Largest input sizes.}
--   input_dtypes_min: {doc: First input dtypes.}
--   input_dtypes_max: {doc: Last input dtypes.}
--   output_sizes_min: {doc: Smallest output sizes.}
--   output_sizes_max: {doc: Largest output sizes.}
--   output_dtypes_min: {doc: First output dtypes.}
--   output_dtypes_max: {doc: Last output dtypes.}
--   state_min: {doc: "Least advanced state, by scheduled < started < completed."}
--   state_max: {doc: Most advanced state.}
--   missing_ranks: {doc: "Members with a dump that have not entered it."}
--   unseen_ranks: {doc: Members without a dump.}
--   odd_ranks: {doc: Members whose call differs from the others'.}
--   is_open: {doc: Somebody waits in it.}
WITH newest AS (
  SELECT gid, max(seq) AS seq FROM facts.op WHERE seq IS NOT NULL GROUP BY gid
),
waited AS (SELECT DISTINCT gid, seq FROM facts.block WHERE seq IS NOT NULL),
shown AS (
  SELECT DISTINCT o.gid, o.seq, w.gid IS NOT NULL AS is_open
  FROM facts.op AS o
  JOIN newest AS n USING (gid)
  LEFT JOIN waited AS w ON w.gid = o.gid AND w.seq = o.seq
  WHERE o.seq IS NOT NULL AND (o.seq > n.seq - $seq_window OR w.gid IS NOT NULL)
),
called AS (
  SELECT
    o.gid, o.seq, count(*) AS ranks_seen, min(s.op) AS op_min, max(s.op) AS op_max,
    min(c.input_sizes) AS input_sizes_min, max(c.input_sizes) AS input_sizes_max,
    min(c.input_dtypes) AS input_dtypes_min, max(c.input_dtypes) AS input_dtypes_max,
    min(c.output_sizes) AS output_sizes_min, max(c.output_sizes) AS output_sizes_max,
    min(c.output_dtypes) AS output_dtypes_min, max(c.output_dtypes) AS output_dtypes_max,
    min(o.progress) AS progress_min, max(o.progress) AS progress_max
  FROM shown JOIN facts.op AS o USING (gid, seq)
  JOIN facts.signature AS s ON s.signature_id = o.signature_id
  JOIN {{ python }}.torch_nccl_signature AS c ON c.signature_id = o.signature_id
  GROUP BY o.gid, o.seq
),
away AS (
  SELECT h.gid, h.seq,
    list_sort(list(m.rank) FILTER (m.seen AND p.enq < h.seq)) AS missing,
    list_sort(list(m.rank) FILTER (NOT m.seen)) AS unseen
  FROM shown AS h JOIN facts.peak AS k USING (gid) JOIN facts.member AS m USING (gid)
  LEFT JOIN facts.position AS p ON p.gid = m.gid AND p.rank = m.rank
  WHERE h.seq > k.peak OR NOT m.seen
  GROUP BY h.gid, h.seq
),
odd AS (SELECT gid, seq, list_sort(list(rank)) AS ranks FROM facts.mismatch GROUP BY gid, seq),
size AS (SELECT gid, count(*) AS members FROM facts.member GROUP BY gid)
SELECT
  g.label AS group_name, g.name AS pg_name, h.seq AS collective_seq_id, c.ranks_seen, z.members AS expected_world_size,
  c.op_min, c.op_max, c.input_sizes_min, c.input_sizes_max, c.input_dtypes_min, c.input_dtypes_max,
  c.output_sizes_min, c.output_sizes_max, c.output_dtypes_min, c.output_dtypes_max,
  ['scheduled', 'started', 'completed'][c.progress_min] AS state_min, ['scheduled', 'started', 'completed'][c.progress_max] AS state_max,
  coalesce(a.missing, []) AS missing_ranks, coalesce(a.unseen, []) AS unseen_ranks, coalesce(x.ranks, []) AS odd_ranks, h.is_open
FROM shown AS h
JOIN facts.process_group AS g USING (gid)
JOIN size AS z USING (gid)
JOIN called AS c ON c.gid = h.gid AND c.seq = h.seq
LEFT JOIN away AS a ON a.gid = h.gid AND a.seq = h.seq
LEFT JOIN odd AS x ON x.gid = h.gid AND x.seq = h.seq
ORDER BY
  h.is_open AND (len(missing_ranks) > 0 OR len(unseen_ranks) > 0 OR len(odd_ranks) > 0 OR op_min <> op_max) DESC,
  h.is_open DESC, g.gid, h.seq
