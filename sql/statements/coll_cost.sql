-- summary: "What collectives cost, by operation and size class: the most expensive first."
-- grain: one (communicator, operation, size class)
-- reads: [facts.perf_call, facts.perf_class]
-- columns:
--   comm_name: {doc: The communicator.}
--   coll_func: {doc: Operation.}
--   size: {doc: "Size class, as `64 KiB`: from there to twice that."}
--   calls: {unit: calls, doc: In the window.}
--   total_s: {unit: s, doc: Time of all ranks in them.}
--   share: {doc: Of the time of all classes.}
--   p50_ms: {unit: ms, doc: "Median over calls and ranks, waiting included."}
--   p99_ms: {unit: ms, doc: 99th percentile.}
--   comm_ms: {unit: ms, doc: Median time of the communication itself.}
--   waiting: {doc: Share of total_s that ranks waited for the last to come.}
--   speed: {unit: GB/s, doc: "Size by the time of the communication, median."}
--   usual_speed: {unit: GB/s, doc: What it reaches at its best.}
--   peer_speed: {unit: GB/s, doc: Median of other communicators of that size.}
SELECT (SELECT any_value(c.comm_name) FROM facts.perf_call AS c WHERE c.comm = k.comm) AS comm_name, k.coll_func, k.size, k.calls, k.total_ns / 1e9 AS total_s, k.share,
  k.p50_ns / 1e6 AS p50_ms, k.p99_ns / 1e6 AS p99_ms, k.comm_ns / 1e6 AS comm_ms, k.waiting, k.speed, k.usual_speed, k.peer_speed
FROM facts.perf_class AS k
ORDER BY k.total_ns DESC, k.comm, k.coll_func, k.size_class
