-- summary: "Which global rank stands behind a rank of an NCCL communicator."
-- grain: one (communicator, rank in it)
-- reads: []
-- optional: {nccl.ras_status: nccl.ras_status, nccl.proxy_ops: nccl.proxy_ops, nccl.coll_perf: nccl.coll_perf, facts.member: python.torch_nccl_dump}
-- doc: >-
--   Files of NCCL number ranks within the communicator. The largest communicator in which every process takes part that a kind
--   of file knows of is that of the default group, whose ranks are the global ones; others are mapped through their processes.
-- columns:
--   comm_hash: {doc: The communicator.}
--   comm_rank: {doc: Rank in it.}
--   rank: {doc: "Global rank; NULL where nothing tells it."}
--   n_ranks: {unit: ranks, doc: "Size of the communicator; NULL where it is not known."}
WITH seat AS (
  SELECT NULL::VARCHAR AS comm_hash, NULL::BIGINT AS comm_rank, NULL::BIGINT AS n_ranks, NULL::VARCHAR AS source, NULL::VARCHAR AS process WHERE false
  {% if 'nccl.ras_status' in has %}
  UNION
  SELECT comm_hash, rank, n_ranks, 'ras', concat_ws('/', node, pid, coalesce(nvml_dev, cuda_dev)) FROM {{ nccl }}.ras_status
  WHERE snapshot_id = (SELECT max(snapshot_id) FROM {{ nccl }}.ras_status)
  {% endif %}
  {% if 'nccl.proxy_ops' in has %}
  UNION
  SELECT comm_hash, rank, n_ranks, source, concat_ws('/', node, pid) FROM {{ nccl }}.proxy_ops
  {% endif %}
  {% if 'nccl.coll_perf' in has %}
  UNION
  SELECT comm_hash, rank, n_ranks, 'inspector', concat_ws('/', node, pid) FROM {{ nccl }}.coll_perf
  {% endif %}
),
alone AS (  -- a seat that two processes claim says nothing of processes
  SELECT comm_hash, comm_rank, source, max(n_ranks) AS n_ranks, CASE WHEN count(DISTINCT process) = 1 THEN min(process) END AS process
  FROM seat WHERE comm_hash IS NOT NULL AND comm_rank IS NOT NULL GROUP BY ALL
),
known AS (SELECT source, count(DISTINCT process) AS processes, count(DISTINCT comm_hash) AS comms FROM alone GROUP BY source),
whole AS (  -- communicators of every process that this source knows of
  SELECT a.source, a.comm_hash, greatest(coalesce(max(a.n_ranks), 0), count(*)) AS size
  FROM alone AS a JOIN known AS k USING (source)
  GROUP BY a.source, a.comm_hash, k.processes, k.comms
  HAVING k.comms = 1 OR (count(DISTINCT a.process) = k.processes AND count(*) = k.processes)
),
world AS (
  SELECT source, comm_hash FROM whole
  {% if 'python.torch_nccl_dump' in has %}
  WHERE size >= (SELECT coalesce(max(members), 0) FROM (SELECT count(*) AS members FROM facts.member GROUP BY gid))
  {% endif %}
  QUALIFY size = max(size) OVER (PARTITION BY source)
),
named AS (
  SELECT a.source, a.process, min(a.comm_rank) AS rank FROM alone AS a JOIN world AS w USING (source, comm_hash)
  WHERE a.process IS NOT NULL
  GROUP BY a.source, a.process HAVING min(a.comm_rank) = max(a.comm_rank)
)
SELECT a.comm_hash, a.comm_rank,
  CASE WHEN count(DISTINCT coalesce(n.rank, s.rank)) = 1 THEN min(coalesce(n.rank, s.rank)) END AS rank, max(a.n_ranks) AS n_ranks
FROM alone AS a
LEFT JOIN named AS n ON n.source = a.source AND n.process = a.process
LEFT JOIN (  -- the only communicator there is needs no processes
  SELECT a.source, a.comm_hash, a.comm_rank, a.comm_rank AS rank
  FROM alone AS a JOIN world USING (source, comm_hash) JOIN known AS k USING (source) WHERE k.comms = 1
) AS s ON s.source = a.source AND s.comm_hash = a.comm_hash AND s.comm_rank = a.comm_rank
GROUP BY a.comm_hash, a.comm_rank
