-- summary: "How long each rank was in each collective: by NCCL Inspector, else by Flight Recorder entries with timing."
-- grain: one (communicator, operation, seq, rank)
-- reads: []
-- optional: {nccl.coll_perf: nccl.coll_perf, facts.comm_rank: nccl.coll_perf, python.torch_nccl_flight_record: python.torch_nccl_flight_record, facts.dump: python.torch_nccl_flight_record, facts.member: python.torch_nccl_flight_record, facts.pg_of_rank: python.torch_nccl_flight_record, facts.process_group: python.torch_nccl_flight_record, facts.signature: python.torch_nccl_flight_record, python.torch_nccl_signature: python.torch_nccl_flight_record}
-- columns:
--   comm: {doc: "The communicator: its hash, or the process group of a dump."}
--   comm_name: {doc: What people call it.}
--   n_ranks: {unit: ranks, doc: "Its size; NULL where nothing tells it."}
--   n_nodes: {unit: hosts, doc: "Hosts of it; NULL where nothing tells it."}
--   coll_func: {doc: Operation.}
--   seq: {doc: Sequence number in the communicator.}
--   member: {doc: "Who: the rank in the communicator (Inspector), the global rank (dumps)."}
--   rank: {doc: "Global rank; NULL where nothing tells it."}
--   size_bytes: {unit: bytes, doc: "Size of the message; NULL where it is not known."}
--   took_ns: {unit: ns, doc: "How long this rank was in it, waiting for others included."}
--   by_cpu: {doc: "The host's clock measured it, not the device's."}
--   source: {doc: "`inspector` or `flight_recorder`."}
WITH inspected AS (
  SELECT NULL::VARCHAR AS comm, NULL::VARCHAR AS comm_name, NULL::BIGINT AS n_ranks, NULL::BIGINT AS n_nodes, NULL::VARCHAR AS coll_func, NULL::BIGINT AS seq,
    NULL::BIGINT AS member, NULL::BIGINT AS rank, NULL::BIGINT AS size_bytes, NULL::BIGINT AS took_ns, NULL::BOOLEAN AS by_cpu, NULL::VARCHAR AS source WHERE false
  {% if 'nccl.coll_perf' in has %}
  UNION ALL
  SELECT p.comm_hash, coalesce(p.comm_name || ' (' || p.comm_hash || ')', 'NCCL communicator ' || p.comm_hash), p.n_ranks, p.n_nodes, p.coll_func, p.seq,
    p.rank, g.rank, p.msg_size_bytes, p.exec_time_ns, p.timing_source LIKE '%cpu', 'inspector'
  FROM (  -- the same record may be there twice
    SELECT DISTINCT ON (comm_hash, coll_func, seq, rank) * FROM {{ nccl }}.coll_perf
    WHERE NOT is_p2p AND comm_hash IS NOT NULL AND rank IS NOT NULL AND seq IS NOT NULL AND coll_func IS NOT NULL AND exec_time_ns > 0
    ORDER BY comm_hash, coll_func, seq, rank, snapshot_id DESC) AS p
  LEFT JOIN facts.comm_rank AS g ON g.comm_hash = p.comm_hash AND g.comm_rank = p.rank
  {% endif %}
)
FROM inspected
{% if 'python.torch_nccl_flight_record' in has %}
UNION ALL
SELECT 'group ' || g.gid, any_value(p.label), (SELECT count(*) FROM facts.member AS m WHERE m.gid = g.gid), NULL, any_value(s.op), r.collective_seq_id,
  r.rank, r.rank,
  try_cast(max(greatest(s.numel_in, s.numel_out)::DOUBLE * CASE regexp_extract(c.input_dtypes[1], '\w+')
    WHEN 'Double' THEN 8 WHEN 'Long' THEN 8 WHEN 'ComplexFloat' THEN 8 WHEN 'ComplexDouble' THEN 16 WHEN 'Half' THEN 2 WHEN 'BFloat16' THEN 2 WHEN 'Short' THEN 2
    WHEN 'Char' THEN 1 WHEN 'Byte' THEN 1 WHEN 'Bool' THEN 1 WHEN 'Float8_e4m3fn' THEN 1 WHEN 'Float8_e5m2' THEN 1 ELSE 4 END) AS BIGINT),
  max(r.duration_ns), false, 'flight_recorder'
FROM {{ python }}.torch_nccl_flight_record AS r
JOIN facts.dump AS d ON d.rank = r.rank AND d.snapshot_id = r.snapshot_id
JOIN facts.pg_of_rank AS g ON g.rank = r.rank AND g.pg_id = r.pg_id
JOIN facts.process_group AS p ON p.gid = g.gid
JOIN facts.signature AS s ON s.signature_id = r.signature_id
JOIN {{ python }}.torch_nccl_signature AS c ON c.signature_id = r.signature_id
WHERE r.duration_ns > 0 AND r.state = 'completed' AND NOT coalesce(r.is_p2p, false) AND s.p2p_kind IS NULL AND r.collective_seq_id IS NOT NULL
  AND NOT EXISTS (FROM inspected)
GROUP BY g.gid, r.collective_seq_id, r.rank
{% endif %}
