-- summary: "What each wait comes down to: a seen rank, a circle, a late rank, an unseen rank, nothing we can see."
-- grain: one event under one hypothesis
-- reads: [facts.block, facts.cycle, facts.holder, facts.late, facts.member, facts.op, facts.process_group, facts.reach, facts.root]
-- rules: [V2, V5, V7, L2, P9]
-- columns:
--   ignoring: {doc: "Hypothesis, see facts.block."}
--   event: {doc: The event.}
--   fate: {doc: "`rooted`, `circular`, `late`, `unseen`, `outnumbered`, `unclear`, `last_one`, `inferred`, `all_joined` or `nothing`."}
WITH event AS (
  SELECT ignoring, event, any_value(gid) AS gid, any_value(seq) AS seq, bool_or(is_p2p) AS is_p2p, bool_or(one_way) AS one_way,
    bool_and(unnoticed) AS unnoticed, count(*) AS waiting
  FROM facts.block GROUP BY ignoring, event
),
headcount AS (SELECT gid, count(*) FILTER (seen) AS seen, count(*) FILTER (NOT seen) AS unseen FROM facts.member GROUP BY gid),
at_event AS (
  SELECT
    e.ignoring, e.event,
    EXISTS (FROM facts.root AS r WHERE r.ignoring = e.ignoring AND r.event = e.event) AS rooted,
    EXISTS (FROM facts.cycle AS c WHERE c.ignoring = e.ignoring AND c.event = e.event) AS circular,
    EXISTS (FROM facts.late AS l WHERE l.ignoring = e.ignoring AND l.event = e.event AND l.certain) AS late,
    coalesce(h.unseen, false) AS unseen,
    coalesce(h.unseen, false) AND n.unseen > n.seen AS outnumbered,
    coalesce(h.unclear, false) OR (e.seq IS NULL AND NOT e.is_p2p) AS unclear,
    coalesce(h.moving, false) AS moving,
    NOT g.recorded AS inferred,
    -- a rooted operation lets members go one by one: some finished says nothing about those that have not
    CASE WHEN e.one_way AND EXISTS (FROM facts.op AS o WHERE o.gid = e.gid AND o.seq = e.seq AND o.done)
      THEN CASE WHEN e.waiting = 1 THEN 'last_one' ELSE 'unclear' END END AS partial,
    e.unnoticed AND NOT coalesce(h.unclear, false) AS unnoticed
  FROM event AS e
  JOIN facts.process_group AS g USING (gid)
  JOIN headcount AS n USING (gid)
  LEFT JOIN (
    SELECT ignoring, event, bool_or(why IN ('unseen', 'stale')) AS unseen, bool_or(why IN ('unclear', 'doubtful')) AS unclear,
      bool_or(why = 'moving') AS moving
    FROM facts.holder GROUP BY ALL) AS h ON h.ignoring = e.ignoring AND h.event = e.event
),
summed AS (
  SELECT
    r.ignoring, r.event,
    bool_or(a.rooted) AS rooted, bool_or(a.circular) AS circular, bool_or(a.late) AS late, bool_or(a.unseen) AS unseen,
    bool_or(a.moving) AS moving, bool_or(a.outnumbered) AS outnumbered, bool_or(a.unclear OR coalesce(a.partial = 'unclear', false)) AS unclear,
    bool_or(coalesce(a.partial = 'last_one', false)) AS last_one, bool_or(a.inferred) AS inferred, bool_and(a.unnoticed) AS unnoticed
  FROM facts.reach AS r JOIN at_event AS a ON a.ignoring = r.ignoring AND a.event = r.reached
  GROUP BY r.ignoring, r.event
)
SELECT ignoring, event,
  CASE
    WHEN rooted THEN 'rooted'
    WHEN circular THEN 'circular'
    WHEN moving THEN 'nothing'  -- slow, not stuck
    WHEN late THEN 'late'
    WHEN unclear THEN 'unclear'
    WHEN outnumbered THEN 'outnumbered'
    WHEN unseen THEN 'unseen'
    WHEN unnoticed THEN 'nothing'
    WHEN last_one THEN 'last_one'
    WHEN inferred THEN 'inferred'
    ELSE 'all_joined'
  END AS fate
FROM summed
