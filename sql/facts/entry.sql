-- summary: The entries of the diagnosed snapshot with their group and their state, narrow enough to hold millions.
-- grain: one Flight Recorder entry
-- per: rank
-- reads: [python.torch_nccl_flight_record, facts.dump, facts.pg_of_rank, facts.signature]
-- rules: [P6]
-- columns:
--   rank: {doc: Global rank.}
--   ord: {doc: "Position within this rank, by record id. Never compared between ranks."}
--   gid: {doc: The group.}
--   pg_id: {doc: The group's number inside the process.}
--   seq: {doc: collective_seq_id; p2p entries carry the current value.}
--   p2p_seq: {doc: "p2p_seq_id; -1 in dumps that have none."}
--   signature_id: {doc: What it looks like.}
--   is_p2p: {doc: "Send or receive; the closing entry of a p2p batch is not."}
--   closes_batch: {doc: The closing entry of a coalesced call.}
--   done: {doc: "It has finished: completed, or retired where the library only retires."}
--   timed_out: {doc: "No longer watched and not completed: the watchdog gave it up."}
--   started: {doc: "It has started on the device; only with timing on."}
--   could_be_part: {doc: In the state that the inner entries of a coalesced call keep for ever.}
--   created_ns: {unit: ns since epoch, doc: "When the host entered it, by that host's clock."}
--   timeout_ms: {unit: ms, doc: Timeout of the group.}
--   stack_id: {doc: Where in the program.}
SELECT
  r.rank,
  coalesce(r.record_id, r.entry_index) AS ord,
  g.gid,
  r.pg_id,
  r.collective_seq_id AS seq,
  coalesce(r.p2p_seq_id, -1) AS p2p_seq,
  r.signature_id,
  s.p2p_kind IS NOT NULL OR (coalesce(r.is_p2p, false) AND NOT s.closes_batch) AS is_p2p,
  s.closes_batch,
  r.state = 'completed' OR (r.retired AND NOT s.reports_completion) AS done,
  s.reports_completion AND r.retired AND r.state <> 'completed' AS timed_out,
  r.state = 'started' AS started,
  r.state = 'scheduled' AND NOT r.retired AND s.reports_completion AND NOT s.closes_batch AS could_be_part,
  r.time_created_ns AS created_ns,
  r.timeout_ms,
  r.stack_id
FROM {{ python }}.torch_nccl_flight_record AS r
JOIN facts.dump AS d ON d.rank = r.rank AND d.snapshot_id = r.snapshot_id
JOIN facts.signature AS s ON s.signature_id = r.signature_id
JOIN facts.pg_of_rank AS g ON g.rank = r.rank AND g.pg_id = r.pg_id
