-- summary: "Which global rank stands behind a rank of an NCCL communicator."
-- grain: one (communicator, rank in it)
-- reads: []
-- optional: {nccl.ras_status: nccl.ras_status, facts.member: python.torch_nccl_dump}
-- doc: >-
--   Files of NCCL number ranks within the communicator. A communicator in which every process takes part that NCCL knows of
--   is that of the default group, whose ranks are the global ones; the others are mapped through their processes.
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
),
alone AS (  -- a seat that two processes claim says nothing
  SELECT comm_hash, comm_rank, source, any_value(process) AS process, max(n_ranks) AS n_ranks
  FROM seat WHERE comm_hash IS NOT NULL AND comm_rank IS NOT NULL GROUP BY ALL HAVING count(DISTINCT process) = 1
),
whole AS (  -- communicators of every process that this source knows of
  SELECT source, comm_hash FROM alone
  GROUP BY source, comm_hash
  HAVING count(DISTINCT process) = (SELECT count(DISTINCT a.process) FROM alone AS a WHERE a.source = alone.source)
    AND count(*) = count(DISTINCT process) AND coalesce(max(n_ranks), count(*)) = count(*)
    {% if 'python.torch_nccl_dump' in has %}
    AND count(*) >= (SELECT coalesce(max(members), 0) FROM (SELECT count(*) AS members FROM facts.member GROUP BY gid))
    {% endif %}
),
named AS (
  SELECT source, process, min(comm_rank) AS rank FROM alone JOIN whole USING (source, comm_hash)
  GROUP BY source, process HAVING min(comm_rank) = max(comm_rank)
)
SELECT a.comm_hash, a.comm_rank, CASE WHEN count(DISTINCT n.rank) = 1 THEN min(n.rank) END AS rank, max(a.n_ranks) AS n_ranks
FROM alone AS a LEFT JOIN named AS n USING (source, process)
GROUP BY a.comm_hash, a.comm_rank
