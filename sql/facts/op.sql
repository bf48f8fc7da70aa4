-- summary: "What each rank entered: coalesced calls folded into one, p2p apart from the collectives, done or not."
-- grain: one operation (or one coalesced batch) of one rank
-- per: rank
-- reads: [python.torch_nccl_pg_status, python.torch_nccl_stack, facts.batch_part, facts.dump, facts.entry, facts.ring, facts.signature]
-- rules: [P2, P6, P8]
-- columns:
--   rank: {doc: Global rank.}
--   ord: {doc: "Position within this rank, by record id. Never compared between ranks."}
--   gid: {doc: The group.}
--   seq: {doc: "Number of the collective in its group; NULL for p2p, and where numbers do not align."}
--   is_p2p: {doc: Sends and receives.}
--   signature_id: {doc: What it looks like; of a batch its closing entry.}
--   call_id: {doc: "Hash of operation, sizes and dtypes, of all parts where it is a batch: equal for calls that fit together."}
--   done: {doc: It has finished on this rank.}
--   timed_out: {doc: The watchdog gave it up.}
--   progress: {doc: "1 scheduled, 2 started, 3 completed."}
--   synchronising: {doc: Nobody finishes before everybody has entered.}
--   one_way: {doc: Rooted operation.}
--   created_ns: {unit: ns since epoch, doc: "When the host entered it, by that host's clock."}
--   timeout_ms: {unit: ms, doc: Timeout of the group.}
--   stack_id: {doc: Where in the program.}
--   call_site_id: {doc: The user's part of the stack.}
WITH inside AS (
  SELECT
    b.rank, b.batch_ord AS ord, any_value(b.closing_ord) AS closing_ord, bool_and(b.done) AS done, false AS started, false AS timed_out, any_value(e.gid) AS gid,
    any_value(e.seq) AS seq, bool_or(e.is_p2p) AS is_p2p, arg_min(e.signature_id, e.ord) AS signature_id,
    (hash(list(s.compare_id ORDER BY e.ord)) >> 1)::BIGINT AS parts_id, min(e.created_ns) AS created_ns, any_value(e.timeout_ms) AS timeout_ms,
    arg_min(e.stack_id, e.ord) AS stack_id
  FROM facts.batch_part AS b
  JOIN facts.entry AS e ON e.rank = b.rank AND e.ord = b.ord
  JOIN facts.signature AS s ON s.signature_id = e.signature_id
  GROUP BY b.rank, b.batch_ord
),
finished_part AS (  -- the one inner entry of a small batch looks like a call of its own; its number says it is over
  SELECT e.rank, e.ord
  FROM facts.entry AS e
  JOIN facts.ring AS r ON r.rank = e.rank AND r.only_active
  JOIN facts.dump AS d ON d.rank = e.rank
  JOIN {{ python }}.torch_nccl_pg_status AS c ON c.rank = e.rank AND c.pg_id = e.pg_id AND c.snapshot_id = d.snapshot_id
  LEFT JOIN facts.entry AS after ON after.rank = e.rank AND after.ord = e.ord + 1
  WHERE e.is_p2p AND e.could_be_part AND c.last_completed_collective >= e.p2p_seq AND c.last_completed_collective > e.seq
    AND after.rank IS NULL
    -- unless this rank is seen to send and receive in this group without a batch
    AND NOT EXISTS (
      FROM facts.entry AS x JOIN facts.entry AS y ON y.rank = x.rank AND y.ord = x.ord + 1
      WHERE x.rank = e.rank AND x.gid = e.gid AND x.is_p2p AND NOT y.closes_batch AND y.p2p_seq <> x.p2p_seq)
),
folded AS (
  SELECT
    e.rank, e.ord, e.gid, e.seq, e.is_p2p, e.signature_id, NULL AS parts_id, e.done OR f.rank IS NOT NULL AS done, e.started, e.timed_out,
    e.created_ns, e.timeout_ms, e.stack_id
  FROM facts.entry AS e
  LEFT JOIN finished_part AS f ON f.rank = e.rank AND f.ord = e.ord
  ANTI JOIN facts.batch_part AS b ON b.rank = e.rank AND b.ord = e.ord
  WHERE NOT e.closes_batch
  UNION ALL BY NAME
  SELECT rank, ord, gid, seq, is_p2p, signature_id, parts_id, done, started, timed_out, created_ns, timeout_ms, stack_id
  FROM inside WHERE closing_ord IS NULL
  UNION ALL BY NAME
  SELECT  -- a closing entry whose parts were overwritten or never recorded: `coalesced` closes p2p batches
    c.rank, coalesce(i.ord, c.ord) AS ord, c.gid, c.seq, coalesce(i.is_p2p, s.op = 'coalesced') AS is_p2p,
    c.signature_id, i.parts_id, c.done, c.started, c.timed_out, coalesce(i.created_ns, c.created_ns) AS created_ns, c.timeout_ms,
    coalesce(i.stack_id, c.stack_id) AS stack_id
  FROM facts.entry AS c
  JOIN facts.signature AS s ON s.signature_id = c.signature_id
  LEFT JOIN inside AS i ON i.rank = c.rank AND i.closing_ord = c.ord
  WHERE c.closes_batch
),
recounted AS (  -- one counter per process: count within the group instead, where every ring holds the beginning
  SELECT rank, ord, row_number() OVER (PARTITION BY rank, gid ORDER BY ord) AS seq
  FROM folded
  WHERE NOT is_p2p AND (SELECT bool_or(per_process_seq) AND bool_and(whole) FROM facts.ring)
)
SELECT
  f.rank, f.ord, f.gid,
  CASE WHEN f.is_p2p THEN NULL WHEN r.per_process_seq THEN n.seq ELSE f.seq END AS seq,
  f.is_p2p, f.signature_id, coalesce(f.parts_id, s.compare_id) AS call_id, f.done, f.timed_out,
  CASE WHEN f.done THEN 3 WHEN f.started THEN 2 ELSE 1 END AS progress,
  s.synchronising AND NOT f.is_p2p AS synchronising, s.one_way, f.created_ns, f.timeout_ms, f.stack_id, k.call_site_id
FROM folded AS f
JOIN facts.ring AS r ON r.rank = f.rank
JOIN facts.signature AS s ON s.signature_id = f.signature_id
LEFT JOIN recounted AS n ON n.rank = f.rank AND n.ord = f.ord
LEFT JOIN {{ python }}.torch_nccl_stack AS k ON k.stack_id = f.stack_id
