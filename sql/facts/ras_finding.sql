-- summary: "What NCCL RAS tells the reader: one finding per communicator."
-- grain: one finding
-- reads: [facts.ras_rank, facts.ras_suspect, facts.suspect]
-- columns:
--   told: {doc: The check that tells it.}
--   category: {doc: Category of the diagnosis.}
--   root: {doc: "It is part of the verdict; else a warning beside it."}
--   group_name: {doc: "The communicator, as `NCCL communicator 0xf31e5874c3f25459`."}
--   group_size: {unit: ranks, doc: Its size.}
--   seq: {doc: "Which collective of the communicator is missing, by its count; NULL where none is."}
--   op: {doc: The operation in which the counts differ.}
--   ranks: {doc: "Accused, by their global ranks, ascending; empty where nobody is, or nothing tells the global rank."}
--   also_accused: {doc: "Accused in other findings of the same verdict, ascending."}
--   processes: {doc: "Those told about, as `rank 1 of the communicator (GPU 0 of pid 6247 on 10.0.109.86)`."}
--   waiting: {doc: "Global ranks that are ahead and wait for them, ascending; empty where they are not known."}
--   ahead: {unit: ranks, doc: How many ranks are ahead.}
--   least: {unit: collectives, doc: What those behind have launched.}
--   most: {unit: collectives, doc: What the farthest has launched.}
--   dead: {doc: RAS has given up on the processes.}
--   asked: {unit: queries, doc: How often RAS was asked.}
--   explains: {doc: Always empty.}
--   evidence: {doc: "A row per rank of the communicator: its count and process; those behind first."}
WITH verdict AS (SELECT category, rank FROM facts.suspect WHERE in_verdict AND event IS NULL AND gid IS NULL AND NOT by_log),
led AS (SELECT coalesce(list_sort(list(DISTINCT rank) FILTER (rank IS NOT NULL)), []) AS ranks FROM verdict),
fault AS (
  SELECT told, category, comm, min(nth) AS nth, list_sort(list(comm_rank)) AS comm_ranks,
    coalesce(list_sort(list(DISTINCT rank) FILTER (rank IS NOT NULL)), []) AS ranks, bool_or(leads) AS leads
  FROM facts.ras_suspect GROUP BY ALL
),
told AS (
  SELECT f.*,
    f.leads AND EXISTS (FROM verdict AS v WHERE v.category = f.category AND (len(f.ranks) = 0 OR list_contains(f.ranks, v.rank))) AS root
  FROM fault AS f
)
SELECT
  f.told, f.category, f.root, 'NCCL communicator ' || any_value(r.comm_hash) AS group_name, any_value(r.n_ranks) AS group_size,
  CASE WHEN min(r.least) < max(r.most) THEN min(r.least) + 1 END AS seq, any_value(r.coll_func) AS op, f.ranks,
  CASE WHEN f.root THEN list_filter(l.ranks, lambda a: NOT list_contains(f.ranks, a)) ELSE [] END AS also_accused,
  list('rank ' || r.comm_rank || ' of the communicator (' || r.process || ')' ORDER BY r.comm_rank) FILTER (list_contains(f.comm_ranks, r.comm_rank))[:8] AS processes,
  coalesce(list_sort(list(r.rank) FILTER (r.rank IS NOT NULL AND r.launched > r.least)), []) AS waiting,
  count(*) FILTER (r.launched > r.least) AS ahead, min(r.least) AS least, max(r.most) AS most,
  f.category = 'rank_died' OR coalesce(bool_or(r.lost = 'dead') FILTER (list_contains(f.comm_ranks, r.comm_rank)), false) AS dead, max(r.asked) AS asked,
  []::VARCHAR[] AS explains,
  list({rank: r.rank, comm_rank: r.comm_rank, process: r.process, launched: r.launched, lost: r.lost, async_error: r.async_error}
    ORDER BY NOT list_contains(f.comm_ranks, r.comm_rank), r.comm_rank)[:100] AS evidence
FROM told AS f JOIN facts.ras_rank AS r USING (comm) CROSS JOIN led AS l
GROUP BY f.told, f.category, f.root, f.nth, f.comm, f.ranks, f.comm_ranks, l.ranks
ORDER BY f.root DESC, f.nth, f.comm
