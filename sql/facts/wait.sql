-- summary: "Who waited for whom in one operation, beyond what the least troubled rank of the communicator waits."
-- grain: one (communicator, seq, kind, waiting rank, rank it waits for)
-- reads: [facts.proxy_edge, facts.proxy_turn]
-- columns:
--   comm_hash: {doc: The communicator.}
--   seq: {doc: Sequence number.}
--   kind: {doc: "`data` (of a sender), `credit` (of a receiver), `link` (the network to a receiver), `own` (its GPU)."}
--   rank: {doc: "Who waits: its rank in the communicator."}
--   peer: {doc: "For whom; for `own` it is the rank itself."}
--   ns: {unit: ns, doc: "How long, beyond the usual; steps overlap in time."}
--   raw_ns: {unit: ns, doc: How long in all.}
WITH waited AS (
  -- who gives a sender no credit cannot blame it for the data
  SELECT comm_hash, seq, 'data' AS kind, receiver AS rank, sender AS peer, greatest(0, data_ns - coalesce(credit_ns, 0)) AS raw_ns
  FROM facts.proxy_edge WHERE data_ns IS NOT NULL
  UNION ALL SELECT comm_hash, seq, 'credit', sender, receiver, credit_ns FROM facts.proxy_edge WHERE credit_ns IS NOT NULL
  UNION ALL SELECT comm_hash, seq, 'link', sender, receiver, link_ns FROM facts.proxy_edge WHERE link_ns IS NOT NULL
  UNION ALL SELECT comm_hash, seq, 'own', rank, rank, own_ns FROM facts.proxy_turn
),
usual AS (  -- the mean of the connection that waits least
  SELECT comm_hash, kind, min(mean) AS ns
  FROM (SELECT comm_hash, kind, rank, peer, avg(raw_ns) AS mean FROM waited GROUP BY ALL) GROUP BY comm_hash, kind
)
SELECT w.comm_hash, w.seq, w.kind, w.rank, w.peer, greatest(0, w.raw_ns - u.ns) AS ns, w.raw_ns
FROM waited AS w JOIN usual AS u USING (comm_hash, kind)
