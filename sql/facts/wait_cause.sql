-- summary: "What a wait comes from: the wait of the other end that is longest, or that other end itself."
-- grain: one wait that is long for its operation
-- reads: [facts.proxy_turn, facts.wait]
-- columns:
--   comm_hash: {doc: The communicator.}
--   seq: {doc: Sequence number.}
--   kind: {doc: "Kind of the wait, see facts.wait."}
--   rank: {doc: Who waits.}
--   peer: {doc: For whom.}
--   ns: {unit: ns, doc: "How long, beyond the usual."}
--   next_kind: {doc: "The wait it comes from: its kind; NULL where it ends here."}
--   next_rank: {doc: Who waits there.}
--   next_peer: {doc: For whom.}
--   class: {doc: "Where it ends: `culprit`, `receiver_congested`, `network`; NULL where it goes on, or nothing explains it."}
--   how: {doc: "`gpu` (late by itself), `came_late`, `credit`, `link`; NULL with class."}
WITH long AS (
  SELECT * FROM facts.wait WHERE ns > 0 QUALIFY ns >= max(ns) OVER (PARTITION BY comm_hash, seq) * 0.1
),
pressed AS (SELECT comm_hash, seq, peer AS rank, max(ns) AS ns FROM facts.wait WHERE kind = 'credit' GROUP BY ALL),
reason AS (  -- what holds the other end up: its own GPU, the network from there, or whom it waits for in turn
  SELECT w.comm_hash, w.seq, w.kind, w.rank, w.peer, c.kind AS next_kind, c.rank AS next_rank, c.peer AS next_peer, c.ns
  FROM long AS w JOIN long AS c ON c.comm_hash = w.comm_hash AND c.seq = w.seq AND c.rank = w.peer
  WHERE w.kind IN ('data', 'credit') AND c.ns >= w.ns * 0.25
    AND NOT (w.kind = 'data' AND c.kind = 'link' AND c.peer <> w.rank)  -- another link of the sender delays nobody here
    AND NOT (w.kind = 'credit' AND c.kind = 'data' AND c.peer = w.rank)
    AND NOT (w.kind = 'data' AND c.kind = 'credit' AND c.peer = w.rank)
),
best AS (
  SELECT * FROM reason
  QUALIFY row_number() OVER (PARTITION BY comm_hash, seq, kind, rank, peer ORDER BY ns DESC, next_kind = 'own' DESC, next_kind, next_peer) = 1
)
SELECT
  w.comm_hash, w.seq, w.kind, w.rank, w.peer, w.ns, b.next_kind, b.next_rank, b.next_peer,
  CASE
    WHEN w.kind = 'own' THEN 'culprit' WHEN w.kind = 'link' THEN 'network'
    WHEN b.next_kind IS NOT NULL OR t.rank IS NULL THEN NULL  -- without a trace of the other end nobody knows
    WHEN t.late >= 0.3 THEN 'culprit'
    WHEN p.ns >= w.ns * 0.25 THEN 'receiver_congested'
  END AS class,
  CASE
    WHEN w.kind = 'own' THEN 'gpu' WHEN w.kind = 'link' THEN 'link'
    WHEN b.next_kind IS NOT NULL OR t.rank IS NULL THEN NULL
    WHEN t.late >= 0.3 THEN 'came_late'
    WHEN p.ns >= w.ns * 0.25 THEN 'credit'
  END AS how
FROM long AS w
LEFT JOIN best AS b ON b.comm_hash = w.comm_hash AND b.seq = w.seq AND b.kind = w.kind AND b.rank = w.rank AND b.peer = w.peer
LEFT JOIN facts.proxy_turn AS t ON t.comm_hash = w.comm_hash AND t.seq = w.seq AND t.rank = w.peer
LEFT JOIN pressed AS p ON p.comm_hash = w.comm_hash AND p.seq = w.seq AND p.rank = w.peer
