-- summary: The last thing each rank entered, and where in the program.
-- grain: one rank that was seen
-- reads: [python.torch_nccl_stack, facts.dump, facts.op, facts.process_group, facts.signature]
-- columns:
--   rank: {doc: Global rank.}
--   last_seen: {doc: "`all_reduce dp #12, train.py:88 in backward`; NULL without entries."}
--   last_ord: {doc: Position of that operation.}
WITH last AS (
  SELECT rank, max(ord) AS ord FROM facts.op GROUP BY rank
)
SELECT
  d.rank,
  s.op || ' ' || g.label || coalesce(' #' || o.seq, '') || coalesce(', ' || k.user_frame, '') AS last_seen,
  o.ord AS last_ord
FROM facts.dump AS d
LEFT JOIN last AS l ON l.rank = d.rank
LEFT JOIN facts.op AS o ON o.rank = l.rank AND o.ord = l.ord
LEFT JOIN facts.signature AS s ON s.signature_id = o.signature_id
LEFT JOIN facts.process_group AS g ON g.gid = o.gid
LEFT JOIN {{ python }}.torch_nccl_stack AS k ON k.stack_id = o.stack_id
