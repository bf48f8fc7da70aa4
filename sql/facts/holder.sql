-- summary: "Who holds an event up: members that are absent, odd, unseen, stuck, or blocked earlier themselves."
-- grain: one (hypothesis, event, member that holds it up)
-- reads: [facts.block, facts.dump, facts.member, facts.mismatch, facts.op, facts.p2p_wait, facts.peak, facts.pending, facts.position, facts.process_group, facts.ring, facts.shift]
-- params:
--   live_limit_s: {type: double, default: 10.0, doc: "In a running process an operation younger than this is no hang."}
-- rules: [V1, V2, P4, P10, L2, L5, L6]
-- columns:
--   ignoring: {doc: "Hypothesis, see facts.block."}
--   event: {doc: The event that is held up.}
--   rank: {doc: Who holds it up; NULL where only somebody unknown can.}
--   why: {doc: "`idle`, `absent` (busy elsewhere), `blocked` (entered, but waits earlier), `odd`, `shifted`, `stuck`, `unposted`, `resized`, `moving`, `unseen`, `stale`, `unclear`, `doubtful`."}
--   next_event: {doc: What the holder itself waits in; NULL where it waits for nothing.}
WITH stale AS (  -- peers finished what this dump does not hold yet: it was taken earlier
  SELECT DISTINCT p.rank FROM facts.position AS p JOIN facts.peak AS k USING (gid) WHERE p.enq < k.peak
),
moving AS (  -- a running process with nothing but fresh operations open: it goes on
  SELECT rank FROM facts.pending GROUP BY rank HAVING bool_and(young)
  UNION  -- nor is it late where another process ended while this one was asked: it just had not come yet
  SELECT d.rank FROM facts.dump AS d JOIN facts.op AS o USING (rank)
  WHERE d.from_process AND EXISTS (FROM facts.dump WHERE at_exit)
  GROUP BY d.rank HAVING max(d.snapshot_ns - o.created_ns) IS NOT NULL AND min(d.snapshot_ns - o.created_ns) < $live_limit_s * 1e9
),
partial AS (SELECT bool_or(NOT whole) AS wrapped FROM facts.ring WHERE entries > 0),
event AS (
  SELECT ignoring, event, gid, seq, count(*) AS waiting FROM facts.block WHERE NOT is_p2p GROUP BY ALL
),
standing AS (
  SELECT
    e.ignoring, e.event, e.waiting, m.rank, b.event AS own_event,
    CASE
      -- an odd rank may even have finished: a rooted operation needs nobody
      WHEN x.rank IS NOT NULL AND (b.event = e.event OR o.done) THEN 'odd'
      WHEN b.event = e.event THEN CASE
        WHEN s.may_have_added THEN 'added'
        WHEN b.unnoticed AND NOT g.reports_completion THEN 'doubtful'
        WHEN b.unnoticed THEN 'stuck'
        WHEN b.unclear THEN 'unclear' END
      WHEN e.seq <= k.peak THEN NULL
      WHEN NOT m.seen THEN 'unseen'
      WHEN o.rank IS NOT NULL THEN CASE WHEN NOT o.done AND b.ord < o.ord THEN 'blocked' END
      WHEN p.enq >= e.seq THEN CASE
        WHEN r.only_active OR greatest(p.own_done, p.counted_done + 1) >= e.seq THEN NULL  -- over for it, or it waits here too
        ELSE 'unclear' END
      WHEN t.rank IS NOT NULL THEN 'stale'
      WHEN r.says_nothing AND (e.seq > k.first_seq OR (SELECT wrapped FROM partial)) THEN 'unclear'
      WHEN b.unclear OR (p.enq IS NULL AND NOT p.lacks_open AND NOT r.says_nothing) THEN 'unclear'
      WHEN b.event IS NOT NULL THEN 'absent'
      WHEN v.rank IS NOT NULL THEN 'moving'
      ELSE 'idle'
    END AS why
  FROM event AS e
  JOIN facts.process_group AS g USING (gid)
  JOIN facts.peak AS k USING (gid)
  JOIN facts.member AS m USING (gid)
  LEFT JOIN facts.ring AS r ON r.rank = m.rank
  LEFT JOIN facts.position AS p ON p.gid = e.gid AND p.rank = m.rank
  LEFT JOIN facts.op AS o ON o.gid = e.gid AND o.seq = e.seq AND o.rank = m.rank
  LEFT JOIN facts.block AS b ON b.ignoring = e.ignoring AND b.rank = m.rank
  LEFT JOIN facts.mismatch AS x ON x.gid = e.gid AND x.seq = e.seq AND x.rank = m.rank
  LEFT JOIN facts.shift AS s ON s.gid = e.gid AND s.rank = m.rank
  LEFT JOIN stale AS t ON t.rank = m.rank
  LEFT JOIN moving AS v ON v.rank = m.rank
),
weighed AS (
  SELECT *,
    count(*) FILTER (why IN ('idle', 'absent')) OVER (PARTITION BY ignoring, event) AS away,
    count(*) FILTER (why = 'added') OVER (PARTITION BY ignoring, event) AS added
  FROM standing
),
collective AS (
  -- those that wait are fewer than those that did not come, and added a call: nobody else is to blame
  SELECT ignoring, event, rank, CASE why WHEN 'added' THEN 'shifted' ELSE why END AS why,
    CASE WHEN why IN ('absent', 'blocked') THEN own_event END AS next_event
  FROM weighed
  WHERE CASE
    WHEN added = waiting AND waiting < away THEN why NOT IN ('idle', 'absent')
    ELSE why <> 'added' END
),
p2p AS (
  SELECT
    b.ignoring, b.event, w.peer AS rank,
    CASE
      WHEN w.peer IS NULL OR w.standing = 'unknown' THEN 'unclear'
      WHEN r.rank IS NULL THEN 'unseen'
      WHEN w.standing = 'posted' AND w.numel <> w.peer_numel THEN 'resized'
      WHEN w.standing = 'posted' THEN CASE WHEN o.ord < w.peer_ord THEN 'blocked' END
      WHEN t.rank IS NOT NULL THEN 'stale'
      WHEN r.says_nothing OR coalesce(o.unclear, false) THEN 'unclear'
      WHEN o.event IS NULL AND v.rank IS NOT NULL THEN 'moving'
      ELSE 'unposted'
    END AS why,
    CASE WHEN w.standing = 'unposted' OR o.ord < w.peer_ord THEN o.event END AS next_event
  FROM facts.block AS b
  JOIN facts.p2p_wait AS w ON w.rank = b.rank AND w.ord = b.ord
  LEFT JOIN facts.ring AS r ON r.rank = w.peer
  LEFT JOIN facts.block AS o ON o.ignoring = b.ignoring AND o.rank = w.peer
  LEFT JOIN stale AS t ON t.rank = w.peer
  LEFT JOIN moving AS v ON v.rank = w.peer
  WHERE b.is_p2p
),
overtaken AS (  -- its partner finished the pair, it has not
  SELECT b.ignoring, b.event, b.rank, 'stuck' AS why, NULL::BIGINT AS next_event
  FROM facts.block AS b JOIN facts.p2p_wait AS w ON w.rank = b.rank AND w.ord = b.ord
  WHERE b.is_p2p GROUP BY b.ignoring, b.event, b.rank HAVING bool_and(w.peer_done)
),
resized AS (  -- of a pair of unequal sizes either side may be wrong
  SELECT p.ignoring, p.event, b.rank, p.why, NULL::BIGINT AS next_event
  FROM p2p AS p JOIN facts.block AS b USING (ignoring, event) WHERE p.why = 'resized'
),
nameless AS (  -- a p2p call without partners (torchcomms, a batch whose parts are gone)
  SELECT b.ignoring, b.event, NULL::BIGINT AS rank, 'unclear' AS why, NULL::BIGINT AS next_event
  FROM facts.block AS b ANTI JOIN facts.p2p_wait AS w ON w.rank = b.rank AND w.ord = b.ord
  WHERE b.is_p2p
)
SELECT DISTINCT ignoring, event, rank, why, next_event
FROM (FROM collective UNION ALL FROM p2p UNION ALL FROM resized UNION ALL FROM overtaken UNION ALL FROM nameless)
WHERE why IS NOT NULL
