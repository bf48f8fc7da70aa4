-- summary: How far a rank itself made others wait in one operation.
-- grain: one (communicator, seq, rank with a trace)
-- reads: [nccl.proxy_ops, facts.proxy_edge]
-- params:
--   seq_window: {type: integer, default: 20, doc: Newest sequence numbers of each communicator to look at.}
-- columns:
--   comm_hash: {doc: The communicator.}
--   seq: {doc: Sequence number.}
--   rank: {doc: Rank in the communicator.}
--   own_ns: {unit: ns, doc: "Its proxy waited for its GPU longer than the GPU can have waited for data: the GPU is late by itself."}
--   late: {doc: "Share of the longest time of any rank by which it was in the operation for less: it came late, if high."}
WITH starved AS (  -- no data in the GPU's sight: none came, or the sender had no credit although the GPU had taken what was there
  SELECT comm_hash, seq, receiver AS rank, max(coalesce(data_ns, 0) + greatest(0, coalesce(credit_ns, 0) - coalesce(taken_ns, 0))) AS ns
  FROM facts.proxy_edge GROUP BY ALL
),
owned AS (SELECT comm_hash, seq, sender AS rank, max(gpu_ns) AS ns FROM facts.proxy_edge WHERE gpu_ns IS NOT NULL GROUP BY ALL),
stay AS (
  SELECT comm_hash, seq, rank, max(duration_ns) AS ns FROM {{ nccl }}.proxy_ops
  WHERE duration_ns IS NOT NULL AND complete AND seq > (SELECT max(e.seq) FROM facts.proxy_edge AS e WHERE e.comm_hash = proxy_ops.comm_hash) - $seq_window
  GROUP BY ALL
),
seen AS (
  SELECT comm_hash, seq, sender AS rank FROM facts.proxy_edge WHERE gpu_ns IS NOT NULL
  UNION SELECT comm_hash, seq, receiver FROM facts.proxy_edge WHERE data_ns IS NOT NULL
)
SELECT s.comm_hash, s.seq, s.rank, greatest(0, coalesce(o.ns, 0) - coalesce(v.ns, 0)) AS own_ns,
  coalesce(1 - y.ns / nullif(max(y.ns) OVER (PARTITION BY s.comm_hash, s.seq), 0), 0) AS late
FROM seen AS s
LEFT JOIN owned AS o ON o.comm_hash = s.comm_hash AND o.seq = s.seq AND o.rank = s.rank
LEFT JOIN starved AS v ON v.comm_hash = s.comm_hash AND v.seq = s.seq AND v.rank = s.rank
LEFT JOIN stay AS y ON y.comm_hash = s.comm_hash AND y.seq = s.seq AND y.rank = s.rank
