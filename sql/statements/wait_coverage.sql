-- summary: Whose traces of NCCL were looked at.
-- grain: one row
-- reads: [nccl.proxy_ops, facts.comm_rank, facts.proxy_edge, facts.proxy_turn]
-- columns:
--   ranks_seen: {doc: "Global ranks that left a trace, ascending, as far as they are known."}
--   ranks_expected: {doc: "Those, and their peers, ascending."}
--   ranks_missing: {doc: "Expected, not seen."}
--   records: {unit: operations, doc: Sends and receives of proxies.}
--   groups: {unit: communicators, doc: Communicators.}
WITH seen AS (
  SELECT DISTINCT g.rank FROM facts.proxy_turn AS t JOIN facts.comm_rank AS g ON g.comm_hash = t.comm_hash AND g.comm_rank = t.rank WHERE g.rank IS NOT NULL
),
-- peers without a trace have no process that would tell their rank, but in the communicator of all ranks
expected AS (
  SELECT rank FROM seen
  UNION
  SELECT e.rank FROM (SELECT comm_hash, sender AS rank FROM facts.proxy_edge UNION SELECT comm_hash, receiver FROM facts.proxy_edge) AS e
  WHERE NOT EXISTS (FROM facts.comm_rank AS g WHERE g.comm_hash = e.comm_hash AND g.rank IS DISTINCT FROM g.comm_rank)
)
SELECT
  (SELECT coalesce(list_sort(list(rank)), []) FROM seen) AS ranks_seen,
  (SELECT coalesce(list_sort(list(rank)), []) FROM expected) AS ranks_expected,
  (SELECT coalesce(list_sort(list(rank)), []) FROM expected ANTI JOIN seen USING (rank)) AS ranks_missing,
  (SELECT count(*) FROM {{ nccl }}.proxy_ops) AS records,
  (SELECT count(DISTINCT comm_hash) FROM facts.proxy_edge) AS groups
