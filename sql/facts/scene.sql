-- summary: "Each event as people read it: where, what, who waits there and for how long."
-- grain: one event under one hypothesis
-- reads: [facts.block, facts.dump, facts.member, facts.op, facts.p2p_end, facts.peak, facts.process_group, facts.signature]
-- columns:
--   ignoring: {doc: "Hypothesis, see facts.block."}
--   event: {doc: The event.}
--   gid: {doc: The group.}
--   seq: {doc: Sequence number; NULL for p2p.}
--   label: {doc: "`dp #12`; p2p with global ranks: `pp send 0->3`."}
--   group_name: {doc: What people call the group.}
--   group_size: {unit: ranks, doc: Members.}
--   op: {doc: "What most of the waiting ranks called; p2p as `send 0->3` with global ranks."}
--   waiting: {doc: "Ranks that wait in it, ascending."}
--   waited_s: {unit: s, doc: "At least so long, by the newest time in the dumps; NULL where that cannot be told."}
WITH clock AS (  -- the newest moment a rank's dump knows of
  SELECT d.rank, max(greatest(o.created_ns, coalesce(d.snapshot_ns, 0))) AS newest_ns
  FROM facts.dump AS d JOIN facts.op AS o ON o.rank = d.rank GROUP BY d.rank
),
steady AS (  -- groups whose members' clocks agree within seconds, as far as what they last finished together shows
  SELECT o.gid, max(o.created_ns) - min(o.created_ns) < 5000000000 AS agree
  FROM facts.op AS o JOIN facts.peak AS k ON k.gid = o.gid AND k.peak = o.seq GROUP BY o.gid
),
size AS (SELECT gid, count(*) AS members FROM facts.member GROUP BY gid),
transfer AS (  -- the call a rank waits in, in global ranks
  SELECT rank, ord, string_agg(DISTINCT kind || ' ' || CASE kind
    WHEN 'send' THEN rank || '->' || coalesce(peer::VARCHAR, '?') ELSE rank || '<-' || coalesce(peer::VARCHAR, '?') END, ', ') AS op
  FROM facts.p2p_end WHERE NOT done GROUP BY rank, ord
),
seen AS (
  SELECT
    b.ignoring, b.event, b.gid, b.seq, b.is_p2p,
    coalesce(mode(t.op), mode(s.op), 'an operation') AS op,
    list_sort(list(b.rank)) AS waiting,
    (CASE WHEN any_value(y.agree) THEN (SELECT max(newest_ns) FROM clock) - min(o.created_ns)
      ELSE max(c.newest_ns - o.created_ns) END) / 1e9 AS waited_s
  FROM facts.block AS b
  JOIN clock AS c ON c.rank = b.rank
  LEFT JOIN steady AS y ON y.gid = b.gid
  LEFT JOIN facts.op AS o ON o.rank = b.rank AND o.ord = b.ord
  LEFT JOIN facts.signature AS s ON s.signature_id = o.signature_id
  LEFT JOIN transfer AS t ON b.is_p2p AND t.rank = b.rank AND t.ord = b.ord
  GROUP BY ALL
)
SELECT
  e.ignoring, e.event, e.gid, e.seq,
  CASE WHEN e.is_p2p THEN g.label || ' ' || e.op ELSE g.label || ' #' || coalesce(e.seq::VARCHAR, '?') END AS label,
  g.label AS group_name, z.members AS group_size, e.op, e.waiting,
  CASE WHEN e.waited_s >= 1 THEN e.waited_s END AS waited_s
FROM seen AS e JOIN facts.process_group AS g USING (gid) JOIN size AS z USING (gid)
