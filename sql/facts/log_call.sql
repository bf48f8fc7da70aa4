-- summary: "Calls that NCCL printed as they were issued (NCCL_DEBUG_SUBSYS=COLL), in the communicator of all ranks."
-- grain: one call of one rank
-- reads: [facts.log_line]
-- columns:
--   rank: {doc: Rank in that communicator.}
--   count: {doc: "NCCL's opCount, which counts per communicator."}
--   op: {doc: Operation.}
--   numel: {unit: elements, doc: Elements.}
--   dtype: {doc: "NCCL's number of the type."}
--   size: {unit: ranks, doc: Members of the communicator.}
--   path: {doc: File.}
--   line: {doc: Number of the line.}
--   text: {doc: What it says.}
WITH call AS (
  SELECT * FROM facts.log_line
  WHERE kind = 'nccl_coll' AND world_size = (SELECT max(world_size) FROM facts.log_line WHERE kind = 'nccl_coll')
),
process AS (SELECT pid, host, any_value(rank) AS rank, any_value(device) AS device, count(DISTINCT comm) AS comms, max(world_size) AS size FROM call GROUP BY pid, host),
single AS (  -- one host with as many devices as members: there the device is the rank
  SELECT bool_and(comms = 1) AND count(DISTINCT host) = 1 AND count(DISTINCT device) = count(*) AND max(device) < max(size) AND count(*) <= max(size) AS holds
  FROM process
)
SELECT coalesce(p.rank, CASE WHEN (SELECT holds FROM single) THEN p.device END) AS rank, c.seq AS count, c.op, c.numel_in AS numel, c.dtype, c.world_size AS size, c.path, c.line, c.text
FROM call AS c JOIN process AS p ON p.pid = c.pid AND p.host = c.host
WHERE p.comms = 1 AND coalesce(p.rank, CASE WHEN (SELECT holds FROM single) THEN p.device END) IS NOT NULL
