-- summary: "Who comes last: all leave a collective together, so who was in it shortest came last and let the others wait."
-- grain: one (communicator, operation, size class, rank)
-- reads: [facts.perf_call, facts.perf_class, facts.perf_op]
-- columns:
--   comm: {doc: The communicator.}
--   coll_func: {doc: Operation.}
--   size_class: {doc: Size class.}
--   member: {doc: "Who, see facts.perf_call."}
--   rank: {doc: "Global rank; NULL where nothing tells it."}
--   behind_ns: {unit: ns, doc: "How much later than the first it came, median over the calls."}
--   last_of: {doc: Share of the calls in which it came last.}
--   late: {doc: "It comes later than the others, and by enough to be told."}
WITH stood AS (
  SELECT o.comm, o.coll_func, o.size_class, c.member, max(c.rank) AS rank, median(o.longest_ns - c.took_ns) AS behind_ns, avg((c.took_ns = o.comm_ns)::INTEGER) AS last_of,
    count(*) AS calls
  FROM facts.perf_op AS o JOIN facts.perf_call AS c ON c.comm = o.comm AND c.coll_func = o.coll_func AND c.seq = o.seq
  WHERE o.recent AND o.whole AND o.seen > 1 GROUP BY o.comm, o.coll_func, o.size_class, c.member
),
measured AS (
  SELECT s.*, k.p50_ns, max(behind_ns) OVER c AS most_ns, median(behind_ns) OVER c AS middle_ns, count(*) OVER c AS members, min(s.calls) OVER c AS least_calls
  FROM stood AS s JOIN facts.perf_class AS k USING (comm, coll_func, size_class)
  WINDOW c AS (PARTITION BY comm, coll_func, size_class)
),
-- half as late as the latest, far later than the middle, by more than noise; of three calls at least
judged AS (
  SELECT *, behind_ns >= most_ns * 0.5 AND least_calls >= 3 AND most_ns >= greatest(20_000, p50_ns * 0.3)
    AND (behind_ns >= middle_ns * 2.5 OR members = 2) AS stands_out
  FROM measured
)
SELECT comm, coll_func, size_class, member, rank, behind_ns, last_of,
  stands_out AND count(*) FILTER (stands_out) OVER (PARTITION BY comm, coll_func, size_class) * 2 <= members
    AND (members > 2 OR last_of >= 0.8) AS late
FROM judged
