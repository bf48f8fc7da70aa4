-- summary: "Open collectives whose sizes cannot fit, whoever is compared: the total received is not the total sent."
-- grain: one (group, sequence number, rank) with sizes that do not fit
-- reads: [facts.member, facts.op, facts.peak, facts.process_group, facts.signature]
-- rules: [L1, V7]
-- columns:
--   gid: {doc: The group.}
--   seq: {doc: Sequence number.}
--   rank: {doc: "A rank whose own sizes do not fit."}
--   stands_out: {doc: "Fewer than half of the members are wrong: these are the culprits. Else all share one mistake."}
WITH size AS (SELECT gid, count(*) AS members FROM facts.member GROUP BY gid),
called AS (
  SELECT o.gid, o.seq, o.rank, z.members, s.numel_in, s.numel_out, s.numel_factor, s.exchanges_totals
  FROM facts.op AS o
  JOIN facts.process_group AS g ON g.gid = o.gid AND g.recorded
  JOIN facts.peak AS k ON k.gid = o.gid AND o.seq > k.peak
  JOIN size AS z ON z.gid = o.gid
  JOIN facts.signature AS s ON s.signature_id = o.signature_id AND s.compare_id = o.call_id
  WHERE NOT o.done
),
judged AS (
  SELECT *,
    CASE
      WHEN numel_factor = 1 THEN numel_out <> numel_in * members
      WHEN numel_factor = -1 THEN numel_in <> numel_out * members
      WHEN exchanges_totals AND count(*) OVER call = members AND bool_and(exchanges_totals) OVER call
        AND sum(numel_in) OVER call <> sum(numel_out) OVER call THEN numel_in <> numel_out
      ELSE false
    END AS wrong,
    count(*) OVER call AS present
  FROM called
  WINDOW call AS (PARTITION BY gid, seq)
)
SELECT gid, seq, rank, 2 * count(*) OVER (PARTITION BY gid, seq) < present AS stands_out
FROM judged
WHERE wrong
