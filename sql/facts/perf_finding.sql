-- summary: "What is told to the reader about the cost of collectives: late ranks, slow communication, slow communicators."
-- grain: one finding
-- reads: [facts.perf_call, facts.perf_class, facts.perf_late]
-- columns:
--   told: {doc: "The check that tells it: `rank_comes_late`, `slower_than_its_peers`, `slower_than_it_was`, `timings_unclear`."}
--   category: {doc: "`late_rank`, `slow_communicator`, `slow_collective`; `insufficient_evidence`."}
--   root: {doc: Always true.}
--   group_name: {doc: The communicator.}
--   group_size: {unit: ranks, doc: Its size; NULL where it is not known.}
--   seq: {doc: Always NULL; it is about many.}
--   op: {doc: "The operation; of a late rank the one in which most is lost."}
--   ranks: {doc: "By their global ranks, ascending; empty where nobody is accused, or nothing tells the global rank."}
--   also_accused: {doc: "Accused in other findings of the same verdict, ascending."}
--   members: {doc: "The same in the communicator (dumps: by global rank)."}
--   size: {doc: "Size class, as `64 KiB`; NULL where it is not known."}
--   calls: {unit: calls, doc: How many calls were looked at.}
--   lost_s: {unit: s, doc: "Time of all ranks that it costs, in the window."}
--   share: {doc: Share of the time of that class that is lost.}
--   behind_s: {unit: s, doc: How much later than the first the late rank comes; NULL for others.}
--   p50_s: {unit: s, doc: "Median time of a call on a rank, waiting included."}
--   comm_s: {unit: s, doc: Median time of the communication itself.}
--   speed: {unit: GB/s, doc: Median bandwidth of the communication; NULL where the size is not known.}
--   best_speed: {unit: GB/s, doc: "What it is compared with: its own best, or that of its peers; NULL for late ranks."}
--   whole: {doc: All ranks of the communicator were seen.}
--   explains: {doc: Always empty.}
--   evidence: {doc: "A row per operation and size class: what it costs."}
WITH late AS (
  SELECT comm, coll_func, size_class, list_sort(list(member)) AS members, CASE WHEN count(rank) = count(*) THEN list_sort(list(rank)) ELSE [] END AS ranks,
    max(behind_ns) AS behind_ns
  FROM facts.perf_late WHERE late GROUP BY ALL
),
fault AS (
  -- of the classes in which the same ranks are late, the one that costs most
  SELECT 'rank_comes_late' AS told, 'late_rank' AS category, k.comm, arg_max(k.coll_func, k.total_ns * k.waiting) AS coll_func, arg_max(k.size_class, k.total_ns * k.waiting) AS size_class,
    l.members, any_value(l.ranks) AS ranks, sum(k.total_ns * k.waiting) AS lost_ns, sum(k.calls) AS calls, arg_max(l.behind_ns, k.total_ns * k.waiting) AS behind_ns, NULL::DOUBLE AS best_speed
  FROM late AS l JOIN facts.perf_class AS k USING (comm, coll_func, size_class) GROUP BY k.comm, l.members
  UNION ALL
  SELECT 'slower_than_its_peers', 'slow_communicator', k.comm, k.coll_func, k.size_class, c.members, c.ranks,
    k.comm_ns * (1 - k.speed / k.peer_speed) * k.calls * k.n_ranks, k.calls, NULL, k.peer_speed
  FROM facts.perf_class AS k
  JOIN (SELECT comm, list_sort(list(DISTINCT member)) AS members,
          CASE WHEN count(DISTINCT rank) = count(DISTINCT member) THEN list_sort(list(DISTINCT rank)) ELSE [] END AS ranks
        FROM facts.perf_call GROUP BY comm) AS c USING (comm)
  WHERE k.whole AND k.calls >= 3 AND k.speed <= k.peer_speed * 0.67 AND k.share >= 0.05
  UNION ALL
  SELECT 'slower_than_it_was', 'slow_collective', k.comm, k.coll_func, k.size_class, [], [],
    k.comm_ns * (1 - k.speed / k.usual_speed) * k.calls * coalesce(k.n_ranks, 1), k.calls, NULL, k.usual_speed
  FROM facts.perf_class AS k
  WHERE k.calls >= 5 AND k.speed <= k.usual_speed * 0.5 AND k.share >= 0.05
),
unclear AS (  -- without all ranks of some communicator nobody can say that no rank is late
  SELECT 'timings_unclear' AS told, 'insufficient_evidence' AS category, comm, coll_func, size_class, []::BIGINT[] AS members, []::BIGINT[] AS ranks, 0.0 AS lost_ns, calls,
    NULL::DOUBLE AS behind_ns, NULL::DOUBLE AS best_speed
  FROM facts.perf_class
  WHERE NOT EXISTS (FROM facts.perf_class WHERE whole AND calls >= 3 AND n_ranks > 1) AND NOT EXISTS (FROM fault)
  QUALIFY row_number() OVER (ORDER BY total_ns DESC, comm, coll_func, size_class) = 1
),
once AS (  -- one finding per communicator and kind: the class that loses most
  SELECT * FROM (FROM fault UNION ALL FROM unclear) QUALIFY row_number() OVER (PARTITION BY told, comm, members ORDER BY lost_ns DESC, coll_func, size_class) = 1
),
proof AS (
  SELECT list(struct_pack(comm := comm, op := coll_func, size := size, calls := calls, total_s := round(total_ns / 1e9, 6), share := round(share, 4), p50_ms := round(p50_ns / 1e6, 4),
    p99_ms := round(p99_ns / 1e6, 4), waiting := round(waiting, 4), gb_s := round(speed, 3), best_gb_s := round(usual_speed, 3)) ORDER BY total_ns DESC)[:100] AS evidence
  FROM facts.perf_class
)
SELECT
  f.told, f.category, true AS root, (SELECT any_value(c.comm_name) FROM facts.perf_call AS c WHERE c.comm = f.comm) AS group_name, k.n_ranks AS group_size, NULL::BIGINT AS seq,
  f.coll_func AS op, f.ranks,
  list_sort(list_distinct(list_filter(flatten(list(f.ranks) OVER ()), lambda r: NOT list_contains(f.ranks, r)))) AS also_accused,
  f.members, k.size, f.calls, f.lost_ns / 1e9 AS lost_s, f.lost_ns / nullif(k.total_ns, 0) AS share, f.behind_ns / 1e9 AS behind_s, k.p50_ns / 1e9 AS p50_s, k.comm_ns / 1e9 AS comm_s,
  k.speed, f.best_speed, k.whole, []::VARCHAR[] AS explains, p.evidence
FROM once AS f JOIN facts.perf_class AS k USING (comm, coll_func, size_class) CROSS JOIN proof AS p
ORDER BY f.lost_ns DESC, f.comm
