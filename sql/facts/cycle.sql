-- summary: "Ranks that wait for each other in a circle, and which of them left the order of the others."
-- grain: one (hypothesis, circle, rank to blame)
-- reads: [facts.block, facts.holder, facts.member, facts.op, facts.passed, facts.process_group, facts.reach, facts.root, facts.shift]
-- rules: [V3, V4, L4, L5]
-- columns:
--   ignoring: {doc: "Hypothesis, see facts.block."}
--   event: {doc: "What the rank passed or is shifted in; of a whole circle its first event."}
--   rank: {doc: A rank to blame.}
--   category: {doc: Category of the diagnosis.}
--   settled_by: {doc: "`shift`, `history`, `vote` (order of entering), or `nothing` (the whole circle)."}
WITH doomed AS (SELECT DISTINCT r.ignoring, r.event FROM facts.reach AS r JOIN facts.root AS o ON o.ignoring = r.ignoring AND o.event = r.reached),
mutual AS (
  SELECT a.ignoring, a.event, b.event AS other
  FROM facts.reach AS a JOIN facts.reach AS b ON b.ignoring = a.ignoring AND b.event = a.reached AND b.reached = a.event
  ANTI JOIN doomed AS d ON d.ignoring = a.ignoring AND d.event = a.event
  WHERE a.event <> a.reached
),
ring AS (SELECT ignoring, event, least(event, min(other)) AS circle FROM mutual GROUP BY ignoring, event),
link AS (  -- who ties an event of the circle to the next
  SELECT DISTINCT a.ignoring, a.circle, h.event, h.rank
  FROM facts.holder AS h
  JOIN ring AS a ON a.ignoring = h.ignoring AND a.event = h.event
  JOIN ring AS b ON b.ignoring = h.ignoring AND b.event = h.next_event AND b.circle = a.circle
),
place AS (SELECT DISTINCT c.ignoring, c.circle, b.event, b.gid, b.seq FROM ring AS c JOIN facts.block AS b USING (ignoring, event) WHERE NOT b.is_p2p),
shifted AS (
  SELECT DISTINCT l.ignoring, l.circle, p.event, l.rank, 'collective_skipped' AS category
  FROM link AS l
  JOIN place AS p ON p.ignoring = l.ignoring AND p.circle = l.circle
  JOIN facts.shift AS s ON s.gid = p.gid AND s.rank = l.rank
),
history AS (
  SELECT l.ignoring, l.circle, min(l.event) AS event, l.rank, CASE WHEN bool_and(p.is_p2p) THEN 'p2p_unmatched' ELSE 'collective_skipped' END AS category
  FROM link AS l JOIN facts.passed AS p ON p.ignoring = l.ignoring AND p.event = l.event AND p.rank = l.rank
  GROUP BY l.ignoring, l.circle, l.rank
),
history_tells AS (  -- who passed is to blame only if others did not
  SELECT h.* FROM history AS h
  WHERE (SELECT count(DISTINCT x.rank) FROM history AS x WHERE x.ignoring = h.ignoring AND x.circle = h.circle)
      < (SELECT count(DISTINCT l.rank) FROM link AS l WHERE l.ignoring = h.ignoring AND l.circle = h.circle)
),
ballot AS (  -- which of two events each rank of both groups entered first; never entered comes last
  SELECT a.ignoring, a.circle, a.event AS one, b.event AS two, m.rank,
    coalesce(x.ord, 9223372036854775807) < coalesce(y.ord, 9223372036854775807) AS one_first
  FROM place AS a
  JOIN place AS b ON b.ignoring = a.ignoring AND b.circle = a.circle AND b.gid <> a.gid AND a.event < b.event
  JOIN facts.member AS m ON m.gid = a.gid
  JOIN facts.member AS n ON n.gid = b.gid AND n.rank = m.rank
  LEFT JOIN facts.op AS x ON x.gid = a.gid AND x.seq = a.seq AND x.rank = m.rank
  LEFT JOIN facts.op AS y ON y.gid = b.gid AND y.seq = b.seq AND y.rank = m.rank
  WHERE x.rank IS NOT NULL OR y.rank IS NOT NULL
),
voted AS (
  SELECT ignoring, circle, rank
  FROM ballot
  QUALIFY count(*) OVER (PARTITION BY ignoring, circle, one, two, one_first) * 2 < count(*) OVER (PARTITION BY ignoring, circle, one, two)
),
whole AS (SELECT DISTINCT ignoring, circle, rank FROM link),
silenced AS (  -- a member of two of its groups left no dump: its order of entering could have settled it
  SELECT DISTINCT a.ignoring, a.circle
  FROM place AS a
  JOIN place AS b ON b.ignoring = a.ignoring AND b.circle = a.circle AND b.gid <> a.gid
  JOIN facts.process_group AS g ON g.gid = a.gid
  JOIN facts.process_group AS h ON h.gid = b.gid
  JOIN facts.member AS m ON NOT m.seen AND (m.gid = a.gid OR NOT g.recorded)
  JOIN facts.member AS n ON n.rank = m.rank AND (n.gid = b.gid OR NOT h.recorded)
),
ranked AS (
  SELECT *, 1 AS nth, 'shift' AS settled_by FROM shifted
  UNION ALL SELECT *, 2, 'history' FROM history_tells
  UNION ALL SELECT DISTINCT v.ignoring, v.circle, v.circle, v.rank, 'group_order_deadlock', 3, 'vote' FROM voted AS v
  UNION ALL SELECT w.ignoring, w.circle, w.circle,
    CASE WHEN s.circle IS NULL THEN w.rank END, CASE WHEN s.circle IS NULL THEN 'group_order_deadlock' ELSE 'insufficient_evidence' END, 4, 'nothing'
    FROM whole AS w LEFT JOIN silenced AS s ON s.ignoring = w.ignoring AND s.circle = w.circle
)
SELECT DISTINCT ignoring, event, rank, category, settled_by
FROM ranked
QUALIFY nth = min(nth) OVER (PARTITION BY ignoring, circle)
