-- summary: How far each rank of each communicator has come, as NCCL RAS said when it was asked last.
-- grain: one rank of one communicator
-- reads: [nccl.ras_status, facts.comm_rank]
-- columns:
--   comm: {doc: "The communicator: both its hashes, where RAS shows both."}
--   comm_hash: {doc: Its first hash.}
--   n_ranks: {unit: ranks, doc: Its size.}
--   comm_rank: {doc: Rank in it.}
--   rank: {doc: "Global rank; NULL where nothing tells it."}
--   process: {doc: "The process, as `GPU 0 of pid 6247 on 10.0.109.86`."}
--   launched: {unit: collectives, doc: "Launched so far; NULL where RAS has no data."}
--   least: {unit: collectives, doc: The smallest count in the communicator.}
--   most: {unit: collectives, doc: The largest.}
--   coll_func: {doc: "The operation in which the ranks' counts differ most; else the one launched most."}
--   moves: {doc: "Some count of the communicator has risen since RAS was asked before; NULL where it was asked once."}
--   ending: {doc: "The communicator is being torn down, or still set up: counts differ for that reason."}
--   lost: {doc: "RAS cannot reach the process: `dead` (given up on), `unresponsive`; NULL otherwise."}
--   async_error: {doc: "The rank's asynchronous error; NULL for none."}
--   asked: {unit: queries, doc: How often RAS was asked.}
WITH answer AS (
  SELECT *, comm_hash || coalesce(' ' || secondary_hash, '') AS comm FROM {{ nccl }}.ras_status WHERE comm_hash IS NOT NULL AND rank IS NOT NULL
),
newest AS (SELECT DISTINCT ON (comm, rank) * FROM answer WHERE snapshot_id = (SELECT max(snapshot_id) FROM answer) ORDER BY comm, rank, missing DESC),
count_of AS (SELECT comm, rank, unnest(coll_funcs) AS coll_func, unnest(coll_counts) AS n FROM newest),
differing AS (
  SELECT comm, arg_max(coll_func, {a: spread, b: n}) AS coll_func
  FROM (SELECT comm, coll_func, max(n) - min(n) AS spread, max(n) AS n FROM count_of GROUP BY ALL) GROUP BY comm
),
earlier AS (  -- the same communicator, when it was asked before
  SELECT comm, rank, max(launched) AS launched, count(DISTINCT snapshot_id) AS times
  FROM answer WHERE snapshot_id < (SELECT max(snapshot_id) FROM answer) GROUP BY comm, rank
)
SELECT
  w.comm, w.comm_hash, coalesce(w.n_ranks, count(*) OVER c) AS n_ranks, w.rank AS comm_rank, g.rank,
  coalesce('GPU ' || coalesce(w.nvml_dev, w.cuda_dev) || ' of ', '') || coalesce('pid ' || w.pid, 'rank ' || w.rank || ' of ' || w.comm_hash)
    || coalesce(' on ' || w.node, '') AS process,
  w.launched, min(w.launched) OVER c AS least, max(w.launched) OVER c AS most, d.coll_func,
  bool_or(w.launched > e.launched) OVER c AS moves,
  coalesce(bool_or(w.finalize_called OR w.destroy_flag OR w.init_state = 7) OVER c, false) AS ending,
  CASE WHEN w.considered_dead THEN 'dead' WHEN w.unresponsive THEN 'unresponsive' END AS lost,
  CASE WHEN w.async_error NOT IN (0, 7) THEN w.async_error END AS async_error,
  1 + coalesce(max(e.times) OVER (), 0) AS asked
FROM newest AS w
LEFT JOIN differing AS d USING (comm)
LEFT JOIN earlier AS e ON e.comm = w.comm AND e.rank = w.rank
LEFT JOIN facts.comm_rank AS g ON g.comm_hash = w.comm_hash AND g.comm_rank = w.rank
WINDOW c AS (PARTITION BY w.comm)
