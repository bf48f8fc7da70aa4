-- summary: "The newest synchronising operation that anybody in a group finished: it and all before it are over for everyone."
-- grain: one process group with collectives
-- reads: [facts.member, facts.op, facts.position, facts.process_group, facts.ring]
-- rules: [P3, P4, P5, P9]
-- columns:
--   gid: {doc: The group.}
--   peak: {doc: "Sequence number; 0 where nothing was seen to finish."}
--   first_seq: {doc: "Lowest sequence number in any dump of the group."}
WITH mourned AS (  -- gloo: when a process dies, its neighbours retire what the others still wait in
  SELECT p.gid, (SELECT min(o.seq) FROM facts.op AS o WHERE o.gid = p.gid AND NOT o.done) AS open_from
  FROM facts.process_group AS p
  WHERE NOT p.reports_completion AND EXISTS (FROM facts.member AS m WHERE m.gid = p.gid AND NOT m.seen)
),
by_entry AS (
  SELECT o.gid, max(o.seq) FILTER (o.done AND o.synchronising AND o.seq < coalesce(q.open_from, 9223372036854775807)) AS seq, min(o.seq) AS first_seq
  FROM facts.op AS o LEFT JOIN mourned AS q ON q.gid = o.gid
  WHERE o.seq IS NOT NULL
  GROUP BY o.gid
),
open AS (
  SELECT DISTINCT gid, seq FROM facts.op WHERE NOT done AND synchronising AND seq IS NOT NULL
),
by_absence AS (  -- finished entries that a dump leaves out, or only counts
  SELECT e.gid, max(e.seq) AS seq
  FROM open AS e
  JOIN facts.position AS p ON p.gid = e.gid
  JOIN facts.ring AS r ON r.rank = p.rank
  ANTI JOIN facts.op AS o ON o.gid = e.gid AND o.seq = e.seq AND o.rank = p.rank
  WHERE (r.only_active AND p.enq >= e.seq) OR p.counted_done >= e.seq
  GROUP BY e.gid
)
SELECT e.gid, greatest(coalesce(e.seq, 0), coalesce(a.seq, 0)) AS peak, e.first_seq
FROM by_entry AS e LEFT JOIN by_absence AS a ON a.gid = e.gid
