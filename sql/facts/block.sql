-- summary: "Where each rank waits: its oldest open operation. Once as the dumps say, once without lone unnoticed ones."
-- grain: one waiting rank under one hypothesis
-- reads: [facts.pending, facts.ring]
-- rules: [P7, V6]
-- columns:
--   ignoring: {doc: "Hypothesis: a lone operation that only the watchdog of this rank has not noticed to finish is nothing."}
--   rank: {doc: Global rank.}
--   event: {doc: "What it waits in, numbered: one per collective, one per p2p call."}
--   ord: {doc: Position of the operation within the rank.}
--   gid: {doc: The group.}
--   seq: {doc: Sequence number; NULL for p2p.}
--   is_p2p: {doc: Sends and receives.}
--   one_way: {doc: Rooted operation.}
--   unnoticed: {doc: "Peers have finished it: the rank is stuck on its device, or has not noticed."}
--   unclear: {doc: The ring is too short to tell whether it waits in something older.}
WITH hypothesis AS (
  SELECT false AS ignoring
  UNION ALL SELECT true WHERE EXISTS (FROM facts.pending WHERE may_ignore AND lags)
),
oldest AS (
  SELECT h.ignoring, p.*
  FROM hypothesis AS h
  JOIN facts.pending AS p ON NOT p.young AND NOT (p.may_ignore AND (
    h.ignoring OR NOT p.lags OR (p.next_entered AND EXISTS (FROM facts.pending AS q WHERE q.unnoticed AND NOT q.next_entered))))
  QUALIFY p.ord = min(p.ord) OVER (PARTITION BY h.ignoring, p.rank)
)
SELECT
  b.ignoring, b.rank,
  dense_rank() OVER (ORDER BY b.gid, b.seq, CASE WHEN b.is_p2p THEN b.rank END, CASE WHEN b.is_p2p THEN b.ord END) AS event,
  b.ord, b.gid, b.seq, b.is_p2p, b.one_way, b.unnoticed,
  (r.unclear OR r.short) AND b.ord >= 0 AS unclear
FROM oldest AS b JOIN facts.ring AS r ON r.rank = b.rank
