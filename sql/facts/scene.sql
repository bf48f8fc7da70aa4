-- summary: "Each event as people read it: where, what, who waits there and for how long."
-- grain: one event
-- reads: [facts.block, facts.dump, facts.member, facts.op, facts.p2p_end, facts.peak, facts.process_group, facts.signature, facts.suspect]
-- columns:
--   event: {doc: The event.}
--   gid: {doc: The group.}
--   seq: {doc: "Sequence number; NULL for p2p."}
--   label: {doc: "`dp #12`; p2p with global ranks: `pp send 0->3`."}
--   group_name: {doc: What people call the group.}
--   group_size: {unit: ranks, doc: Members.}
--   op: {doc: "What most of the waiting ranks called; p2p as `send 0->3` with global ranks."}
--   waiting: {doc: "Ranks that wait in it, ascending."}
--   entered_ns: {unit: ns since epoch, doc: "When the waiting ranks entered it, by their own clocks (median); NULL where that is unknown."}
--   waited_s: {unit: s, doc: "At least so long, by the newest time in the dumps; NULL where that cannot be told."}
WITH clock AS (  -- the newest moment a rank's dump knows of
  SELECT o.rank, greatest(max(o.created_ns), max(d.snapshot_ns)) AS newest_ns
  FROM facts.op AS o JOIN facts.dump AS d USING (rank) GROUP BY o.rank
),
steady AS (  -- groups whose members' clocks agree within seconds, as far as what they last finished together shows
  SELECT o.gid, max(o.created_ns) - min(o.created_ns) < 5000000000 AS agree
  FROM facts.peak AS k JOIN facts.op AS o ON o.gid = k.gid AND o.seq = k.peak GROUP BY o.gid
),
transfer AS (  -- the call a rank waits in, in global ranks
  SELECT rank, ord, string_agg(DISTINCT kind || ' ' || rank || CASE kind WHEN 'send' THEN '->' ELSE '<-' END || coalesce(peer::VARCHAR, '?'), ', ') AS op
  FROM facts.p2p_end WHERE NOT done GROUP BY rank, ord
),
seen AS (
  SELECT
    b.event, b.gid, b.seq, b.is_p2p,
    coalesce(mode(t.op), mode(s.op), 'an operation') AS op,
    list_sort(list(b.rank)) AS waiting,
    median(o.created_ns)::BIGINT AS entered_ns,
    (CASE WHEN bool_and(y.agree) THEN max(max(c.newest_ns)) OVER () - min(o.created_ns) ELSE max(c.newest_ns - o.created_ns) END) / 1e9 AS waited_s
  FROM facts.block AS b
  JOIN clock AS c ON c.rank = b.rank
  LEFT JOIN steady AS y ON y.gid = b.gid
  LEFT JOIN facts.op AS o ON o.rank = b.rank AND o.ord = b.ord
  LEFT JOIN facts.signature AS s ON s.signature_id = o.signature_id
  LEFT JOIN transfer AS t ON b.is_p2p AND t.rank = b.rank AND t.ord = b.ord
  WHERE b.ignoring = (SELECT coalesce(bool_or(ignoring), false) FROM facts.suspect)
  GROUP BY ALL
),
size AS (SELECT gid, count(*) AS members FROM facts.member GROUP BY gid)
SELECT
  e.event, e.gid, e.seq, g.label || CASE WHEN e.is_p2p THEN ' ' || e.op ELSE ' #' || coalesce(e.seq::VARCHAR, '?') END AS label,
  g.label AS group_name, z.members AS group_size, e.op, e.waiting, e.entered_ns, CASE WHEN e.waited_s >= 1 THEN e.waited_s END AS waited_s
FROM seen AS e JOIN facts.process_group AS g USING (gid) JOIN size AS z USING (gid)
