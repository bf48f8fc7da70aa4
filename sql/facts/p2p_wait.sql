-- summary: "For every send or receive that is open: has its partner posted the other half?"
-- grain: one open send or receive
-- reads: [facts.p2p_end, facts.pending, facts.ring]
-- rules: [L6]
-- columns:
--   rank: {doc: Who waits.}
--   ord: {doc: In which of its calls.}
--   gid: {doc: The group.}
--   kind: {doc: "`send` or `recv`."}
--   peer: {doc: The partner's global rank; NULL where unknown.}
--   standing: {doc: "`posted`, `unposted`, or `unknown` (partner not named, or it may take it from any source)."}
--   peer_ord: {doc: The partner's call with the other half.}
--   peer_done: {doc: The partner has finished it.}
--   numel: {unit: elements, doc: Own size.}
--   peer_numel: {unit: elements, doc: Size of the other half.}
WITH waiting AS (
  SELECT e.* FROM facts.p2p_end AS e JOIN facts.pending AS p ON p.rank = e.rank AND p.ord = e.ord AND p.is_p2p
),
partner AS (
  SELECT
    w.rank, w.ord, w.gid, w.kind, w.peer, w.numel, w.nth,
    coalesce(k.ord, o.ord) AS peer_ord, coalesce(k.numel, o.numel) AS peer_numel,
    coalesce(k.done, o.done) AS peer_done
  FROM waiting AS w
  JOIN facts.ring AS me ON me.rank = w.rank
  LEFT JOIN facts.ring AS you ON you.rank = w.peer
  LEFT JOIN facts.p2p_end AS k ON me.whole AND you.whole AND k.gid = w.gid AND k.rank = w.peer AND k.peer = w.rank
    AND k.kind <> w.kind AND k.nth = w.nth
  LEFT JOIN facts.p2p_end AS o ON NOT (me.whole AND coalesce(you.whole, false)) AND o.gid = w.gid AND o.rank = w.peer AND o.peer = w.rank
    AND o.kind <> w.kind AND o.nth_open = w.nth_open
)
SELECT
  p.rank, p.ord, p.gid, p.kind, p.peer,
  CASE
    WHEN p.peer IS NULL THEN 'unknown'
    WHEN p.peer_ord IS NOT NULL THEN 'posted'
    WHEN p.kind = 'send' AND EXISTS (
      FROM facts.p2p_end AS a WHERE a.gid = p.gid AND a.rank = p.peer AND a.kind = 'recv' AND a.peer IS NULL AND NOT a.done) THEN 'unknown'
    ELSE 'unposted'
  END AS standing,
  p.peer_ord, coalesce(p.peer_done, false) AS peer_done, p.numel, p.peer_numel
FROM partner AS p
