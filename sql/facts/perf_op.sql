-- summary: "Each collective over its ranks: the shortest time is that of the communication, the rest is waiting for the last."
-- grain: one (communicator, operation, seq)
-- reads: [facts.perf_call]
-- params:
--   step_window: {type: integer, default: 50, doc: "Newest collectives of each communicator, operation and size class to look at."}
-- columns:
--   comm: {doc: The communicator.}
--   coll_func: {doc: Operation.}
--   size_class: {doc: "Power of two at or below the size in bytes; -1 where the size is not known."}
--   seq: {doc: Sequence number.}
--   size_bytes: {unit: bytes, doc: Size of the message.}
--   seen: {unit: ranks, doc: How many ranks tell of it.}
--   whole: {doc: "All ranks of the communicator tell of it, so the last to come is among them."}
--   total_ns: {unit: ns, doc: "Time of all ranks in it."}
--   comm_ns: {unit: ns, doc: "The shortest time: that of the communication, if `whole`."}
--   longest_ns: {unit: ns, doc: The longest.}
--   speed: {unit: GB/s, doc: "Size by comm_ns; NULL where the size is not known."}
--   usual_speed: {unit: GB/s, doc: "What it reaches at its best in this class: the 90th percentile over all that is there."}
--   recent: {doc: It lies in the window.}
WITH op AS (
  SELECT comm, coll_func, seq, max(size_bytes) AS size_bytes, count(*) AS seen, coalesce(count(*) = max(n_ranks), false) AS whole,
    sum(took_ns)::DOUBLE AS total_ns, min(took_ns)::DOUBLE AS comm_ns, max(took_ns)::DOUBLE AS longest_ns
  FROM facts.perf_call GROUP BY ALL
),
sized AS (
  SELECT *, CASE WHEN size_bytes > 0 THEN floor(log2(size_bytes))::BIGINT ELSE -1 END AS size_class,
    CASE WHEN size_bytes > 0 THEN size_bytes / comm_ns END AS speed
  FROM op
)
SELECT comm, coll_func, size_class, seq, size_bytes, seen, whole, total_ns, comm_ns, longest_ns, speed,
  quantile_cont(speed, 0.9) OVER (PARTITION BY comm, coll_func, size_class) AS usual_speed,
  row_number() OVER (PARTITION BY comm, coll_func, size_class ORDER BY seq DESC) <= $step_window AS recent
FROM sized
