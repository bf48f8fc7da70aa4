-- summary: "Ranks whose sequence is shifted against their group: they skipped a collective, or added one."
-- grain: one (group, rank)
-- reads: [facts.consensus]
-- rules: [L4]
-- columns:
--   gid: {doc: The group.}
--   rank: {doc: The shifted rank.}
--   since: {doc: Sequence number of the first difference.}
--   shift: {doc: "Calls it is ahead of its group: 1 = it skipped one, -1 = it added one."}
--   may_have_added: {doc: "That it added calls explains it as well; where steps repeat, both do."}
--   seen_by: {doc: "`call` (operation, sizes, dtypes) or `site` (the place in the program)."}
--   holds: {doc: How many of its calls fit the group under this shift.}
WITH compared AS (
  SELECT gid, rank, seq, 'call' AS seen_by, own_call AS own, call AS theirs, NULL AS own_call, NULL AS call FROM facts.consensus
  UNION ALL
  SELECT gid, rank, seq, 'site', own_site, site, own_call, call FROM facts.consensus
),
start AS (
  SELECT gid, rank, seen_by, min(seq) AS since, count(*) AS differs
  FROM compared WHERE own <> theirs GROUP BY ALL
),
exchanged AS (  -- two neighbours exchanged look like a shift, but nothing is wrong any more behind them
  SELECT s.gid, s.rank, s.seen_by
  FROM start AS s
  JOIN compared AS a ON a.gid = s.gid AND a.rank = s.rank AND a.seen_by = s.seen_by AND a.seq = s.since
  JOIN compared AS b ON b.gid = s.gid AND b.rank = s.rank AND b.seen_by = s.seen_by AND b.seq = s.since + 1
  WHERE a.own = b.theirs AND b.own = a.theirs AND s.differs = 2
),
tried AS (
  SELECT
    s.gid, s.rank, s.seen_by, s.since, s.differs, k.shift,
    count(*) FILTER (o.own = t.theirs) AS holds,
    count(*) FILTER (o.own <> t.theirs OR o.own_call <> t.call) AS fails,
    count(*) FILTER (o.own = t.theirs AND o.own <> o.theirs) AS explains
  FROM start AS s
  CROSS JOIN (SELECT unnest([1, 2, 3, 4, -1, -2, -3, -4]) AS shift) AS k
  JOIN compared AS o ON o.gid = s.gid AND o.rank = s.rank AND o.seen_by = s.seen_by AND o.seq >= s.since - least(k.shift, 0)
  LEFT JOIN compared AS t ON t.gid = s.gid AND t.rank = s.rank AND t.seen_by = s.seen_by AND t.seq = o.seq + k.shift
  GROUP BY ALL
)
SELECT gid, rank, since, shift, bool_or(shift < 0) OVER (PARTITION BY gid, rank) AS may_have_added, seen_by, holds
FROM tried ANTI JOIN exchanged USING (gid, rank, seen_by)
WHERE fails = 0 AND explains > 0 
  AND CASE seen_by WHEN 'site' THEN holds >= 2 AND differs >= 2 ELSE true END
QUALIFY row_number() OVER (PARTITION BY gid, rank ORDER BY seen_by, abs(shift), shift DESC) = 1
