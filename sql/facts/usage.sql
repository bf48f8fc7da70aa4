-- summary: Which groups each process used, as it numbers and names them itself.
-- grain: one (rank, pg_id, pg_name) with entries
-- per: rank
-- reads: [python.torch_nccl_flight_record, facts.dump, facts.signature]
-- rules: [P1, P8, P10]
-- columns:
--   rank: {doc: Global rank.}
--   pg_id: {doc: Number of the group inside this process.}
--   pg_name: {doc: Name of the group; NULL in dumps before 2.1.}
--   pg_desc: {doc: What the user called it.}
--   entries: {unit: entries, doc: How many entries.}
--   first_ord: {doc: Position of the oldest of them.}
--   seq_min: {doc: Lowest collective_seq_id.}
--   seq_max: {doc: Highest collective_seq_id.}
--   collectives: {unit: entries, doc: How many are neither p2p nor closing entries.}
--   last_ord: {doc: Position of the newest.}
--   has_record_ids: {doc: Positions are record ids (FR 1.4 and later).}
--   any_done: {doc: Some have finished.}
--   open_seq_min: {doc: Lowest sequence number of an unfinished synchronising operation.}
--   has_p2p: {doc: Some are sends or receives.}
--   reports_completion: {doc: The library sets state completed.}
--   unrecorded_p2p: {doc: "op_id runs ahead of collective_seq_id by this much: p2p that gloo does not record."}
SELECT
  r.rank,
  r.pg_id,
  r.pg_name,
  any_value(r.pg_desc) AS pg_desc,
  count(*) AS entries,
  min(coalesce(r.record_id, r.entry_index)) AS first_ord,
  min(r.collective_seq_id) AS seq_min,
  max(r.collective_seq_id) AS seq_max,
  count(*) FILTER (s.p2p_kind IS NULL AND NOT s.closes_batch) AS collectives,
  max(coalesce(r.record_id, r.entry_index)) AS last_ord,
  bool_or(r.record_id IS NOT NULL) AS has_record_ids,
  bool_or(r.state = 'completed' OR (r.retired AND NOT s.reports_completion)) AS any_done,
  min(r.collective_seq_id) FILTER (r.state <> 'completed' AND NOT (r.retired AND NOT s.reports_completion)
                                   AND s.synchronising) AS open_seq_min,
  bool_or(s.p2p_kind IS NOT NULL OR coalesce(r.is_p2p, false)) AS has_p2p,
  bool_or(s.reports_completion) AS reports_completion,
  max(r.op_id - r.collective_seq_id) FILTER (NOT s.reports_completion) AS unrecorded_p2p
FROM {{ python }}.torch_nccl_flight_record AS r
JOIN facts.dump AS d ON d.rank = r.rank AND d.snapshot_id = r.snapshot_id
JOIN facts.signature AS s ON s.signature_id = r.signature_id
GROUP BY r.rank, r.pg_id, r.pg_name
