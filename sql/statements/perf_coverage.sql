-- summary: Whose timings were looked at.
-- grain: one row
-- reads: [facts.perf_call]
-- columns:
--   ranks_seen: {doc: "Global ranks that left timings, ascending, as far as they are known."}
--   ranks_expected: {doc: "Those, and the rest of the largest communicator where its ranks are global ones, ascending."}
--   ranks_missing: {doc: "Expected, not seen."}
--   records: {unit: calls, doc: Collectives of single ranks.}
--   groups: {unit: communicators, doc: Communicators.}
WITH seen AS (SELECT DISTINCT rank FROM facts.perf_call WHERE rank IS NOT NULL),
expected AS (
  SELECT rank FROM seen
  UNION
  SELECT unnest(range(size)) FROM (
    SELECT least(max(n_ranks), 1_048_576) AS size FROM facts.perf_call GROUP BY comm
    HAVING bool_and(rank = member) AND count(rank) = count(*) AND max(rank) < max(n_ranks) AND max(n_ranks) >= (SELECT max(n_ranks) FROM facts.perf_call))
)
SELECT
  (SELECT coalesce(list_sort(list(rank)), []) FROM seen) AS ranks_seen,
  (SELECT coalesce(list_sort(list(rank)), []) FROM expected) AS ranks_expected,
  (SELECT coalesce(list_sort(list(rank)), []) FROM expected ANTI JOIN seen USING (rank)) AS ranks_missing,
  (SELECT count(*) FROM facts.perf_call) AS records,
  (SELECT count(DISTINCT comm) FROM facts.perf_call) AS groups
