-- summary: "Where each wait ends, followed from rank to rank within one communicator and one operation."
-- grain: one wait whose end is known
-- reads: [facts.wait_cause]
-- columns:
--   comm_hash: {doc: The communicator.}
--   seq: {doc: Sequence number.}
--   kind: {doc: "Kind of the wait, see facts.wait."}
--   rank: {doc: Who waits.}
--   peer: {doc: For whom.}
--   ns: {unit: ns, doc: "How long, beyond the usual."}
--   class: {doc: "`culprit`, `receiver_congested` or `network`."}
--   how: {doc: "`gpu`, `came_late`, `credit` or `link`."}
--   root: {doc: "The rank it comes from; for `network` the sending end."}
--   root_peer: {doc: "For `network` the receiving end; else NULL."}
--   hops: {doc: How many ranks lie between.}
WITH RECURSIVE followed AS (
  SELECT comm_hash, seq, kind, rank, peer, ns, class, how, CASE WHEN class = 'network' THEN rank ELSE peer END AS root,
    CASE WHEN class = 'network' THEN peer END AS root_peer, 0 AS hops
  FROM facts.wait_cause WHERE class IS NOT NULL
  UNION ALL
  SELECT c.comm_hash, c.seq, c.kind, c.rank, c.peer, c.ns, f.class, f.how, f.root, f.root_peer, f.hops + 1
  FROM followed AS f
  JOIN facts.wait_cause AS c ON c.comm_hash = f.comm_hash AND c.seq = f.seq AND c.next_kind = f.kind AND c.next_rank = f.rank AND c.next_peer = f.peer
)
FROM followed
