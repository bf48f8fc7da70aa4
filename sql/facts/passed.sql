-- summary: "Holders that went on past their turn: by their own history what others wait for was due by now."
-- grain: one (hypothesis, event, holder that passed it)
-- reads: [facts.block, facts.holder, facts.op, facts.p2p_end]
-- rules: [V3, V4, L6]
-- columns:
--   ignoring: {doc: "Hypothesis, see facts.block."}
--   event: {doc: What others wait in.}
--   rank: {doc: The member that passed it.}
--   is_p2p: {doc: What it passed is a send or receive.}
--   since: {unit: calls, doc: "Calls of the kind it now waits in that it entered since its last one of the passed kind."}
--   usual: {unit: calls, doc: The most it ever entered between two of them before.}
WITH kind AS (  -- a call as (group, partner): partner -1 for collectives
  SELECT rank, ord, gid, -1 AS peer FROM facts.op WHERE NOT is_p2p
  UNION ALL SELECT DISTINCT rank, ord, gid, peer FROM facts.p2p_end WHERE peer IS NOT NULL
),
due AS (
  SELECT DISTINCT h.ignoring, h.event, h.rank, e.is_p2p, e.gid, CASE WHEN e.is_p2p THEN e.rank ELSE -1 END AS peer, h.next_event
  FROM facts.holder AS h
  JOIN facts.block AS e ON e.ignoring = h.ignoring AND e.event = h.event
  WHERE h.why IN ('absent', 'unposted')
),
turn AS (  -- when it was last there
  SELECT d.*, k.ord AS turn_ord, row_number() OVER (PARTITION BY d.ignoring, d.event, d.rank ORDER BY k.ord DESC) AS back
  FROM due AS d JOIN kind AS k ON k.rank = d.rank AND k.gid = d.gid AND k.peer = d.peer
),
instead AS (  -- what it does now; a rank that is idle may have gone on with anything
  SELECT d.ignoring, d.event, d.rank, k.ord, k.gid, k.peer
  FROM due AS d
  JOIN kind AS k ON k.rank = d.rank AND (k.gid <> d.gid OR k.peer <> d.peer)
  WHERE d.next_event IS NULL OR EXISTS (
    FROM facts.block AS b JOIN kind AS w ON w.rank = b.rank AND w.ord = b.ord
    WHERE b.ignoring = d.ignoring AND b.rank = d.rank AND w.gid = k.gid AND w.peer = k.peer)
),
interval AS (
  SELECT i.ignoring, i.event, i.rank, t.is_p2p, i.gid, i.peer, t.back, count(*) AS n
  FROM instead AS i
  ASOF JOIN turn AS t ON t.ignoring = i.ignoring AND t.event = i.event AND t.rank = i.rank AND i.ord >= t.turn_ord
  GROUP BY ALL
),
full_intervals AS (SELECT ignoring, event, rank, max(back) - 1 AS n FROM turn GROUP BY ALL),
compared AS (
  SELECT
    v.ignoring, v.event, v.rank, any_value(v.is_p2p) AS is_p2p, bool_or(d.next_event IS NOT NULL) AS waits,
    coalesce(max(v.n) FILTER (v.back = 1), 0) AS since,
    coalesce(max(v.n) FILTER (v.back > 1), 0) AS usual
  FROM interval AS v
  JOIN full_intervals AS f ON f.ignoring = v.ignoring AND f.event = v.event AND f.rank = v.rank AND f.n >= 1
  JOIN due AS d ON d.ignoring = v.ignoring AND d.event = v.event AND d.rank = v.rank
  GROUP BY v.ignoring, v.event, v.rank, v.gid, v.peer
)
SELECT ignoring, event, rank, any_value(is_p2p) AS is_p2p, max(since) AS since, arg_max(usual, since) AS usual
FROM compared
WHERE since > usual AND (waits OR usual > 0)  -- what an idle rank did once more may be the end of its step
GROUP BY ignoring, event, rank
