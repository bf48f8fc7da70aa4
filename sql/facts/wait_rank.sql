-- summary: "Each rank's part in what its communicator waits: who makes the others wait, and who only waits."
-- grain: one rank of one communicator
-- reads: [facts.comm_rank, facts.proxy_turn, facts.wait_root, facts.wait_share]
-- columns:
--   comm_hash: {doc: The communicator.}
--   comm_rank: {doc: Rank in it.}
--   rank: {doc: "Global rank; NULL where nothing tells it."}
--   class: {doc: "`culprit`, `receiver_congested`, `network` (an end of that link), `propagated_victim`, `balanced`."}
--   waited_ns: {unit: ns, doc: "How long it waited beyond the usual, with a known end."}
--   root: {doc: "Rank in the communicator that most of its waiting comes from; NULL where it did not wait for another."}
--   hops: {doc: How many ranks lie between.}
WITH root AS (
  SELECT comm_hash, root AS rank, class, ns FROM facts.wait_share WHERE counts
  UNION ALL SELECT comm_hash, root_peer, class, ns FROM facts.wait_share WHERE counts AND root_peer IS NOT NULL
),
blamed AS (SELECT comm_hash, rank, arg_max(class, ns) AS class FROM root GROUP BY comm_hash, rank),
victim AS (
  SELECT r.comm_hash, r.rank, sum(r.ns) AS ns, arg_max(r.root, r.ns) AS root, max(r.hops) AS hops
  FROM facts.wait_root AS r
  JOIN facts.wait_share AS s ON s.comm_hash = r.comm_hash AND s.class = r.class AND s.root = r.root AND s.root_peer IS NOT DISTINCT FROM r.root_peer
  WHERE s.counts AND r.rank <> r.root GROUP BY r.comm_hash, r.rank
),
every AS (SELECT DISTINCT comm_hash, rank FROM facts.proxy_turn UNION SELECT comm_hash, rank FROM blamed)
SELECT
  e.comm_hash, e.rank AS comm_rank, g.rank,
  CASE WHEN b.class IS NOT NULL THEN b.class
    WHEN v.ns >= 0.1 * max(v.ns) OVER (PARTITION BY e.comm_hash) THEN 'propagated_victim' ELSE 'balanced' END AS class,
  coalesce(v.ns, 0) AS waited_ns, v.root, v.hops
FROM every AS e
LEFT JOIN blamed AS b ON b.comm_hash = e.comm_hash AND b.rank = e.rank
LEFT JOIN victim AS v ON v.comm_hash = e.comm_hash AND v.rank = e.rank
LEFT JOIN facts.comm_rank AS g ON g.comm_hash = e.comm_hash AND g.comm_rank = e.rank
