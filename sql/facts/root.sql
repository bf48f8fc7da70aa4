-- summary: "Seen ranks that hold an event up and wait for nobody: what the whole wait comes from."
-- grain: one (hypothesis, event, rank) to blame
-- reads: [facts.arrow, facts.block, facts.holder, facts.mismatch, facts.passed, facts.shift, facts.wrong_size]
-- rules: [V2, V4, L1, L4, L5, L6, P4]
-- columns:
--   ignoring: {doc: "Hypothesis, see facts.block."}
--   event: {doc: The event it holds up.}
--   rank: {doc: The rank; NULL where all made one mistake together.}
--   category: {doc: Category of the diagnosis.}
WITH event AS (SELECT DISTINCT ignoring, event, gid, seq FROM facts.block WHERE NOT is_p2p),
held AS (
  SELECT
    h.ignoring, h.event,
    CASE WHEN NOT (h.why = 'odd' AND s.rank IS NULL AND x.undecided) THEN h.rank END AS rank,
    CASE
      WHEN h.why IN ('shifted', 'odd') AND s.rank IS NOT NULL THEN 'collective_skipped'
      WHEN h.why = 'odd' THEN 'collective_' || x.aspect || '_mismatch'
      WHEN h.why IN ('idle', 'absent') AND s.rank IS NOT NULL THEN 'collective_skipped'
      WHEN h.why = 'idle' THEN 'rank_not_joined'
      WHEN h.why = 'unposted' AND h.next_event IS NULL THEN CASE WHEN p.rank IS NOT NULL THEN 'p2p_unmatched' ELSE 'rank_not_joined' END
      WHEN h.why = 'resized' THEN 'p2p_unmatched'
      -- stuck is only who keeps somebody else waiting: otherwise its watchdog has just not looked yet
      WHEN h.why = 'stuck' AND EXISTS (
        FROM facts.arrow AS a WHERE a.ignoring = h.ignoring AND a.next_event = h.event) THEN 'stuck_on_device'
    END AS category
  FROM facts.holder AS h
  LEFT JOIN event AS e ON e.ignoring = h.ignoring AND e.event = h.event
  LEFT JOIN facts.shift AS s ON s.gid = e.gid AND s.rank = h.rank
  LEFT JOIN facts.mismatch AS x ON x.gid = e.gid AND x.seq = e.seq AND x.rank = h.rank
  LEFT JOIN facts.passed AS p ON p.ignoring = h.ignoring AND p.event = h.event AND p.rank = h.rank
),
missized AS (
  SELECT e.ignoring, e.event, CASE WHEN w.stands_out THEN w.rank END AS rank, 'collective_size_mismatch' AS category
  FROM event AS e JOIN facts.wrong_size AS w ON w.gid = e.gid AND w.seq = e.seq
)
SELECT DISTINCT ignoring, event, rank, category
FROM (FROM held UNION ALL FROM missized)
WHERE category IS NOT NULL
