-- summary: "Every send and receive with its partner's global rank and its place in the sequence of that pair."
-- grain: one send or receive of one rank
-- reads: [facts.batch_part, facts.entry, facts.member, facts.pending, facts.process_group, facts.signature]
-- rules: [P1, L6]
-- columns:
--   gid: {doc: The group.}
--   rank: {doc: Global rank.}
--   ord: {doc: "Position of the call: of the batch, where it is part of one."}
--   kind: {doc: "`send` or `recv`."}
--   peer: {doc: "Global rank of the partner; NULL where the name does not say (any source, torchcomms)."}
--   numel: {unit: elements, doc: Size.}
--   done: {doc: "The call has finished on this rank, or must have by what its peers saw."}
--   nth: {doc: "How many with this partner and direction the dump shows up to here, from 1."}
--   nth_open: {doc: The same among the unfinished ones; NULL when finished.}
WITH raw AS (
  SELECT
    e.gid, e.rank, coalesce(b.batch_ord, e.ord) AS ord, e.ord AS entry_ord, s.p2p_kind AS kind,
    CASE s.p2p_kind WHEN 'send' THEN s.p2p_src ELSE s.p2p_dst END AS own_local,
    CASE s.p2p_kind WHEN 'send' THEN s.p2p_dst ELSE s.p2p_src END AS peer_local,
    s.numel_in AS numel
  FROM facts.entry AS e
  JOIN facts.signature AS s ON s.signature_id = e.signature_id
  LEFT JOIN facts.batch_part AS b ON b.rank = e.rank AND b.ord = e.ord
  WHERE s.p2p_kind IS NOT NULL
),
local AS (  -- group-local number of each member: recorded, or said by its own calls
  SELECT gid, local_rank, any_value(rank) AS rank FROM (
    SELECT gid, local_rank, rank FROM facts.member WHERE local_rank IS NOT NULL
    UNION SELECT r.gid, r.own_local, r.rank FROM raw AS r JOIN facts.process_group AS g USING (gid) WHERE NOT g.recorded AND r.own_local IS NOT NULL
    UNION SELECT m.gid, m.rank, m.rank FROM facts.member AS m JOIN facts.process_group AS g USING (gid) WHERE NOT g.recorded AND g.is_default
  )
  GROUP BY gid, local_rank HAVING count(DISTINCT rank) = 1
)
SELECT
  r.gid, r.rank, r.ord, r.kind, l.rank AS peer, r.numel, o.rank IS NULL AS done,
  row_number() OVER (PARTITION BY r.gid, r.rank, r.kind, l.rank ORDER BY r.entry_ord) AS nth,
  CASE WHEN o.rank IS NOT NULL THEN
    row_number() OVER (PARTITION BY r.gid, r.rank, r.kind, l.rank, o.rank IS NULL ORDER BY r.entry_ord) END AS nth_open
FROM raw AS r
LEFT JOIN facts.pending AS o ON o.rank = r.rank AND o.ord = r.ord
LEFT JOIN local AS l ON l.gid = r.gid AND l.local_rank = r.peer_local
