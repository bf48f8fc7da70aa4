-- summary: How far each member has come in each of its groups.
-- grain: one (group, member that was seen)
-- reads: [python.torch_nccl_pg_status, facts.dump, facts.member, facts.op, facts.pg_of_rank, facts.process_group, facts.ring]
-- rules: [P3, P5, P10]
-- columns:
--   gid: {doc: The group.}
--   rank: {doc: Global rank.}
--   oldest: {doc: "Lowest sequence number the dump still holds (the horizon); NULL without entries."}
--   newest: {doc: Highest sequence number the dump holds; NULL without entries.}
--   enq: {doc: Highest sequence number this rank is known to have entered; NULL where it cannot be told.}
--   own_done: {doc: Highest sequence number it saw finish itself.}
--   counted_done: {doc: "What pg_status says has finished; NULL where the counter is unusable (p2p, gloo)."}
--   borrowed: {doc: The counter was found through another rank's numbering of groups.}
--   lacks_open: {doc: "No entry of an operation that is still open means: not entered."}
WITH own AS (
  SELECT gid, rank, min(seq) AS oldest, max(seq) AS newest, max(seq) FILTER (done) AS own_done
  FROM facts.op WHERE seq IS NOT NULL GROUP BY gid, rank
),
counter AS (
  SELECT p.rank, p.pg_id, p.last_enqueued_collective AS enqueued, p.last_completed_collective AS completed
  FROM {{ python }}.torch_nccl_pg_status AS p
  JOIN facts.dump AS d ON d.rank = p.rank AND d.snapshot_id = p.snapshot_id
  WHERE p.pg_id IS NOT NULL
),
placed AS (
  SELECT c.rank, g.gid, c.enqueued, c.completed, false AS borrowed
  FROM counter AS c JOIN facts.pg_of_rank AS g ON g.rank = c.rank AND g.pg_id = c.pg_id
),
lent AS (  -- a pg_id this dump ties to no group: the one group peers call so, if there is just one
  SELECT c.rank, any_value(g.gid) AS gid, any_value(c.enqueued) AS enqueued, any_value(c.completed) AS completed, true AS borrowed
  FROM counter AS c
  JOIN (SELECT DISTINCT pg_id, gid FROM facts.pg_of_rank WHERE pg_id IS NOT NULL) AS g ON g.pg_id = c.pg_id
  JOIN facts.member AS m ON m.gid = g.gid AND m.rank = c.rank
  ANTI JOIN placed AS known ON known.rank = c.rank AND known.gid = g.gid
  WHERE NOT EXISTS (FROM facts.pg_of_rank AS own WHERE own.rank = c.rank AND own.pg_id = c.pg_id)
  GROUP BY c.rank, c.pg_id
  HAVING count(DISTINCT g.gid) = 1
),
usable AS (
  SELECT c.rank, c.gid, max(coalesce(c.enqueued, 0)) AS enqueued, max(coalesce(c.completed, 0)) AS completed, bool_or(c.borrowed) AS borrowed
  FROM (FROM placed UNION ALL FROM lent) AS c
  JOIN facts.process_group AS p USING (gid)
  WHERE NOT p.has_p2p AND p.reports_completion
  GROUP BY ALL
)
SELECT
  m.gid,
  m.rank,
  o.oldest,
  o.newest,
  coalesce(o.newest, c.enqueued, CASE WHEN r.whole AND NOT r.says_nothing THEN 0 END) AS enq,
  o.own_done,
  c.completed AS counted_done,
  coalesce(c.borrowed AND o.newest IS NULL, false) AS borrowed,
  o.newest IS NOT NULL OR c.rank IS NOT NULL OR (r.whole AND NOT r.says_nothing) OR r.any_done OR r.only_active AS lacks_open
FROM facts.member AS m
JOIN facts.ring AS r ON r.rank = m.rank
LEFT JOIN own AS o ON o.gid = m.gid AND o.rank = m.rank
LEFT JOIN usable AS c ON c.gid = m.gid AND c.rank = m.rank
