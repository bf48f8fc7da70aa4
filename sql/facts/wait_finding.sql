-- summary: "What is told to the reader about waits inside NCCL: one finding per root, then who only waits."
-- grain: one finding
-- reads: [facts.comm_rank, facts.proxy_edge, facts.proxy_turn, facts.wait, facts.wait_cause, facts.wait_rank, facts.wait_root, facts.wait_share]
-- columns:
--   told: {doc: "The check that tells it: `gpu_late`, `receiver_congested`, `slow_link`, `waits_propagated`, `waits_unclear`."}
--   category: {doc: "`culprit`, `receiver_congested`, `network`, `propagated_victim`; `insufficient_evidence`."}
--   root: {doc: "It is part of the verdict; else what comes of it."}
--   group_name: {doc: "The communicator, as `NCCL communicator 0x14ba61f9a096f33f`."}
--   group_size: {unit: ranks, doc: "Ranks of it that are known of."}
--   seq: {doc: Newest sequence number that was looked at.}
--   op: {doc: "The operation, as most of them are; NULL where it is not known."}
--   ranks: {doc: "By their global ranks, ascending; empty where nobody is accused, or nothing tells the global rank."}
--   also_accused: {doc: "Accused in other findings of the same verdict, ascending."}
--   comm_ranks: {doc: "The same in the communicator; of a link first the sending end."}
--   how: {doc: "`gpu`, `came_late`, `credit`, `link`; NULL for findings that accuse nobody."}
--   share: {doc: "Of all wait of the communicator that has a known end."}
--   wait_s: {unit: s, doc: "That wait, for each operation, summed over ranks and steps, which overlap."}
--   seqs: {unit: operations, doc: How many operations were looked at.}
--   waiting: {doc: "Those that only wait, by global ranks, ascending; empty where they are not known."}
--   explains: {doc: Always empty.}
--   evidence: {doc: "A row per rank: its class, how long it waited, for whom in the end."}
WITH comm AS (
  SELECT comm_hash, count(DISTINCT seq) AS seqs, max(seq) AS seq, mode(coll_func) AS op, sum(ns) AS ns FROM facts.wait
  LEFT JOIN (SELECT comm_hash, seq, any_value(coll_func) AS coll_func FROM facts.proxy_edge GROUP BY ALL) USING (comm_hash, seq)
  GROUP BY comm_hash
),
size AS (
  SELECT comm_hash, count(*) AS ranks FROM (
    SELECT comm_hash, sender AS rank FROM facts.proxy_edge UNION SELECT comm_hash, receiver FROM facts.proxy_edge) GROUP BY comm_hash
),
traced AS (SELECT comm_hash, count(DISTINCT rank) AS ranks FROM facts.proxy_turn GROUP BY comm_hash),
loose AS (  -- waits whose end nobody knows
  SELECT c.comm_hash, 1 - coalesce((SELECT sum(r.ns) FROM facts.wait_root AS r WHERE r.comm_hash = c.comm_hash), 0) / nullif(sum(c.ns), 0) AS share
  FROM facts.wait_cause AS c GROUP BY c.comm_hash
),
uneven AS (SELECT comm_hash, sum(ns) / nullif(sum(raw_ns), 0) AS spread FROM facts.wait GROUP BY comm_hash),
told AS (
  SELECT CASE class WHEN 'culprit' THEN 'gpu_late' WHEN 'network' THEN 'slow_link' ELSE class END AS told, class AS category, true AS root,
    comm_hash, list_filter([s.root, s.root_peer], lambda r: r IS NOT NULL) AS comm_ranks, how, share, ns
  FROM facts.wait_share AS s WHERE counts
  UNION ALL
  SELECT 'waits_propagated', 'propagated_victim', false, comm_hash, list_sort(list(comm_rank)), NULL, NULL, sum(waited_ns)
  FROM facts.wait_rank WHERE class = 'propagated_victim' GROUP BY comm_hash
  UNION ALL
  SELECT 'waits_unclear', 'insufficient_evidence', NOT EXISTS (FROM facts.wait_share WHERE counts), c.comm_hash, [], NULL, NULL, c.ns
  FROM comm AS c JOIN traced AS t USING (comm_hash) LEFT JOIN uneven AS u USING (comm_hash) LEFT JOIN loose AS l USING (comm_hash)
  WHERE NOT EXISTS (FROM facts.wait_share AS s WHERE s.counts AND s.comm_hash = c.comm_hash)
    AND ((u.spread >= 0.3 AND l.share >= 0.5 AND c.ns >= 100_000 * c.seqs) OR NOT EXISTS (FROM traced WHERE ranks > 1))
),
named AS (  -- all of them, or none
  SELECT t.told, t.comm_hash, t.comm_ranks, CASE WHEN count(g.rank) = len(t.comm_ranks) THEN list_sort(list(g.rank)) ELSE [] END AS ranks
  FROM (SELECT *, unnest(comm_ranks) AS one FROM told) AS t LEFT JOIN facts.comm_rank AS g ON g.comm_hash = t.comm_hash AND g.comm_rank = t.one
  GROUP BY t.told, t.comm_hash, t.comm_ranks
),
proof AS (
  SELECT comm_hash, list(struct_pack(rank := rank, comm_rank := comm_rank, class := class, waited_s := round(waited_ns / 1e9, 6), root := w.root, hops := hops)
    ORDER BY class IN ('propagated_victim', 'balanced'), waited_ns DESC, comm_rank)[:100] AS evidence,
    coalesce(list_sort(list(rank) FILTER (class = 'propagated_victim' AND rank IS NOT NULL)), []) AS waiting
  FROM facts.wait_rank AS w GROUP BY comm_hash
),
said AS (
  SELECT t.*, CASE WHEN len(t.comm_ranks) = 0 THEN []::BIGINT[] ELSE coalesce(n.ranks, []) END AS ranks
  FROM told AS t LEFT JOIN named AS n ON n.told = t.told AND n.comm_hash = t.comm_hash AND n.comm_ranks = t.comm_ranks
)
SELECT
  s.told, s.category, s.root, 'NCCL communicator ' || s.comm_hash AS group_name, z.ranks AS group_size, c.seq, c.op, s.ranks,
  list_sort(list_distinct(list_filter(flatten(list(s.ranks) FILTER (s.root) OVER ()), lambda r: s.root AND NOT list_contains(s.ranks, r)))) AS also_accused,
  s.comm_ranks, s.how, s.share, s.ns / c.seqs / 1e9 AS wait_s, c.seqs, list_filter(coalesce(p.waiting, []), lambda r: NOT list_contains(s.ranks, r)) AS waiting,
  []::VARCHAR[] AS explains, coalesce(p.evidence, []) AS evidence
FROM said AS s JOIN comm AS c USING (comm_hash) JOIN size AS z USING (comm_hash) LEFT JOIN proof AS p USING (comm_hash)
ORDER BY s.root DESC, s.told = 'waits_unclear', s.ns DESC, s.comm_hash
