-- summary: "What is inside coalesced calls: the inner entries stay scheduled for ever, the closing entry tells the state."
-- grain: one inner entry of a coalesced call
-- per: rank
-- reads: [python.torch_nccl_pg_status, facts.dump, facts.entry, facts.ring, facts.signature]
-- rules: [P2]
-- columns:
--   rank: {doc: Global rank.}
--   ord: {doc: Position of the inner entry.}
--   batch_ord: {doc: "Position of the call, which is that of its first inner entry."}
--   closing_ord: {doc: Position of the closing entry; NULL where there is none.}
--   done: {doc: The call has finished on this rank.}
WITH loose AS (
  SELECT rank, ord, pg_id, seq, p2p_seq, is_p2p, signature_id FROM facts.entry WHERE could_be_part
),
closing AS (SELECT rank, ord, pg_id, seq, p2p_seq, done FROM facts.entry WHERE closes_batch),
tied AS (
  SELECT l.*, c.ord AS closing_ord, c.done
  FROM loose AS l
  ASOF LEFT JOIN closing AS c
    ON c.rank = l.rank AND c.pg_id = l.pg_id AND c.seq = l.seq AND c.p2p_seq = l.p2p_seq AND l.ord < c.ord
),
grouped AS (
  SELECT
    *,
    min(ord) OVER alike AS batch_ord,
    -- without a closing entry only company shows that it is a part: calls of their own have numbers of their own
    closing_ord IS NOT NULL OR (count(*) OVER alike > 1 AND (p2p_seq >= 0 OR NOT is_p2p)) AS is_part
  FROM tied
  WINDOW alike AS (PARTITION BY rank, pg_id, seq, p2p_seq, is_p2p, closing_ord)
),
newest AS (SELECT rank, pg_id, max(ord) AS ord FROM facts.entry GROUP BY ALL)
SELECT
  g.rank, g.ord, g.batch_ord, g.closing_ord,
  CASE
    WHEN g.closing_ord IS NOT NULL THEN g.done
    WHEN s.library = 'xccl' THEN true       -- never writes the closing entry
    WHEN g.batch_ord < max(g.batch_ord) OVER (PARTITION BY g.rank, g.pg_id) THEN true
    WHEN r.only_active THEN coalesce(c.last_completed_collective >= CASE WHEN g.is_p2p THEN g.p2p_seq ELSE g.seq END, false)
    ELSE n.ord > max(g.ord) OVER (PARTITION BY g.rank, g.batch_ord)
  END AS done
FROM grouped AS g
JOIN facts.signature AS s ON s.signature_id = g.signature_id
JOIN facts.dump AS d ON d.rank = g.rank
JOIN facts.ring AS r ON r.rank = g.rank
JOIN newest AS n ON n.rank = g.rank AND n.pg_id = g.pg_id
LEFT JOIN {{ python }}.torch_nccl_pg_status AS c ON c.rank = g.rank AND c.pg_id = g.pg_id AND c.snapshot_id = d.snapshot_id
WHERE g.is_part
