-- summary: "How many collective calls of a group are small, on the rank that made the most of them."
-- grain: one process group
-- reads: [facts.op, facts.process_group, facts.signature]
-- params:
--   small_numel: {type: integer, default: 1024, doc: Calls of fewer elements are small.}
-- columns:
--   group_name: {doc: What people call the group.}
--   op: {doc: "The operation that is small most often; NULL where none is."}
--   calls: {unit: calls, doc: Collective calls of one rank.}
--   small_calls: {unit: calls, doc: Those of fewer elements.}
--   small_numel: {unit: elements, doc: The limit.}
WITH of_rank AS (
  SELECT
    o.gid,
    o.rank,
    count(*) AS calls,
    count(*) FILTER (s.numel_in < $small_numel) AS small_calls,
    mode(s.op) FILTER (s.numel_in < $small_numel) AS op
  FROM facts.op AS o
  JOIN facts.signature AS s USING (signature_id)
  WHERE NOT o.is_p2p AND s.op NOT LIKE '%barrier%'
  GROUP BY o.gid, o.rank
)
SELECT g.label AS group_name, r.op, r.calls, r.small_calls, $small_numel AS small_numel
FROM of_rank AS r
JOIN facts.process_group AS g USING (gid)
QUALIFY row_number() OVER (PARTITION BY r.gid ORDER BY r.small_calls DESC, r.rank) = 1
