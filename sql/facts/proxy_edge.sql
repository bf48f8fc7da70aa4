-- summary: "What both ends of a connection waited for in one operation: all channels of a ring or tree together."
-- grain: one (communicator, seq, sender, receiver)
-- reads: [nccl.proxy_ops]
-- params:
--   seq_window: {type: integer, default: 20, doc: Newest sequence numbers of each communicator to look at.}
-- columns:
--   comm_hash: {doc: The communicator.}
--   seq: {doc: Sequence number in it.}
--   sender: {doc: Rank in the communicator.}
--   receiver: {doc: Rank in the communicator.}
--   coll_func: {doc: "The operation; NULL where it is not known."}
--   gpu_ns: {unit: ns, doc: "The sender's proxy waited for data of its own GPU; NULL without the sender's trace, as the next two."}
--   credit_ns: {unit: ns, doc: It waited for credit of the receiver.}
--   link_ns: {unit: ns, doc: It waited for the network.}
--   data_ns: {unit: ns, doc: "The receiver's proxy waited for data of the sender; NULL without the receiver's trace, as the next."}
--   taken_ns: {unit: ns, doc: It waited for its own GPU to take the data.}
WITH op AS (
  SELECT * FROM {{ nccl }}.proxy_ops WHERE comm_hash IS NOT NULL AND rank IS NOT NULL AND peer IS NOT NULL AND seq IS NOT NULL AND rank <> peer
),
newest AS (  -- the same trace may be there twice
  SELECT comm_hash, rank, seq, max({snapshot_id: snapshot_id, path: path}) AS file FROM op GROUP BY comm_hash, rank, seq
),
front AS (SELECT comm_hash, max(seq) AS seq FROM op GROUP BY comm_hash),
shown AS (
  SELECT o.* FROM op AS o
  JOIN newest AS n ON n.comm_hash = o.comm_hash AND n.rank = o.rank AND n.seq = o.seq
    AND n.file.snapshot_id = o.snapshot_id AND n.file.path IS NOT DISTINCT FROM o.path
  JOIN front AS f ON f.comm_hash = o.comm_hash AND o.seq > f.seq - $seq_window
),
-- sums of hostile numbers stay numbers
sent AS (
  SELECT comm_hash, seq, rank AS sender, peer AS receiver, any_value(coll_func) AS coll_func, sum(send_gpu_wait_ns)::DOUBLE AS gpu_ns,
    sum(send_peer_wait_ns)::DOUBLE AS credit_ns, sum(send_wait_ns)::DOUBLE AS link_ns
  FROM shown WHERE is_send GROUP BY ALL
),
received AS (
  SELECT comm_hash, seq, peer AS sender, rank AS receiver, any_value(coll_func) AS coll_func, sum(recv_wait_ns)::DOUBLE AS data_ns,
    sum(recv_gpu_wait_ns)::DOUBLE AS taken_ns
  FROM shown WHERE NOT is_send GROUP BY ALL
)
SELECT comm_hash, seq, sender, receiver, coalesce(s.coll_func, r.coll_func) AS coll_func, s.gpu_ns, s.credit_ns, s.link_ns, r.data_ns, r.taken_ns
FROM sent AS s FULL JOIN received AS r USING (comm_hash, seq, sender, receiver)
