-- summary: "What the collectives of one operation and size class cost: calls, times, waiting, bandwidth."
-- grain: one (communicator, operation, size class)
-- reads: [facts.perf_call, facts.perf_op]
-- columns:
--   comm: {doc: The communicator.}
--   coll_func: {doc: Operation.}
--   size_class: {doc: "Power of two at or below the size in bytes; -1 where it is not known."}
--   size: {doc: "That in words, as `64 KiB`."}
--   n_ranks: {unit: ranks, doc: "Size of the communicator; NULL where it is not known."}
--   n_nodes: {unit: hosts, doc: "Hosts of it; NULL where it is not known."}
--   calls: {unit: calls, doc: In the window.}
--   whole: {doc: All ranks tell of most of them.}
--   total_ns: {unit: ns, doc: "Time of all ranks in them."}
--   share: {doc: Of the time of all classes.}
--   p50_ns: {unit: ns, doc: "Median over calls and ranks, waiting included."}
--   p99_ns: {unit: ns, doc: 99th percentile.}
--   comm_ns: {unit: ns, doc: "Median over calls of the shortest time: the communication itself."}
--   waiting: {doc: Share of total_ns that ranks waited for the last to come.}
--   speed: {unit: GB/s, doc: "Size by the time of the communication, median; NULL where the size is not known."}
--   usual_speed: {unit: GB/s, doc: "What this class reaches at its best, over all that is there."}
--   peer_speed: {unit: GB/s, doc: "Median of speed over other communicators of as many ranks and hosts; NULL with fewer than two."}
WITH call AS (
  SELECT o.comm, o.coll_func, o.size_class, quantile_cont(c.took_ns, 0.5) AS p50_ns, quantile_cont(c.took_ns, 0.99) AS p99_ns,
    max(c.n_ranks) AS n_ranks, max(c.n_nodes) AS n_nodes
  FROM facts.perf_call AS c JOIN facts.perf_op AS o ON o.comm = c.comm AND o.coll_func = c.coll_func AND o.seq = c.seq
  WHERE o.recent GROUP BY ALL
),
class AS (
  SELECT comm, coll_func, size_class, count(*) AS calls, avg(whole::INTEGER) > 0.5 AS whole, sum(total_ns) AS total_ns, median(comm_ns) AS comm_ns,
    1 - sum(comm_ns * seen) / nullif(sum(total_ns), 0) AS waiting, median(speed) AS speed, max(usual_speed) AS usual_speed
  FROM facts.perf_op WHERE recent GROUP BY ALL
),
joined AS (SELECT * FROM class JOIN call USING (comm, coll_func, size_class))
SELECT
  j.comm, j.coll_func, j.size_class,
  CASE WHEN size_class < 0 THEN NULL WHEN size_class < 10 THEN (1::BIGINT << size_class) || ' B' WHEN size_class < 20 THEN (1::BIGINT << (size_class - 10)) || ' KiB'
    WHEN size_class < 30 THEN (1::BIGINT << (size_class - 20)) || ' MiB' ELSE (1::BIGINT << least(size_class - 30, 32)) || ' GiB' END AS size,
  j.n_ranks, j.n_nodes, j.calls, j.whole, j.total_ns, j.total_ns / nullif(sum(j.total_ns) OVER (), 0) AS share, j.p50_ns, j.p99_ns, j.comm_ns, j.waiting, j.speed, j.usual_speed,
  (SELECT CASE WHEN count(*) > 1 THEN median(p.speed) END FROM joined AS p
   WHERE p.coll_func = j.coll_func AND p.size_class = j.size_class AND p.n_ranks = j.n_ranks AND p.n_nodes IS NOT DISTINCT FROM j.n_nodes AND p.comm <> j.comm AND p.whole) AS peer_speed
FROM joined AS j
