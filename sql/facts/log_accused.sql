-- summary: "Whom single lines of the logs accuse, and who is behind or out of step by the numbers they print."
-- grain: one (category, group, seq, rank, line)
-- reads: [facts.log_call, facts.log_dead, facts.log_line, facts.log_wait]
-- rules: [L3, V9]
-- columns:
--   category: {doc: Category of the diagnosis.}
--   grp: {doc: The group.}
--   label: {doc: What people call it.}
--   seq: {doc: Sequence number.}
--   rank: {doc: Accused; NULL where nobody is.}
--   path: {doc: File that says so.}
--   line: {doc: Line that says so.}
--   text: {doc: What it says.}
WITH waiting AS (FROM facts.log_wait WHERE seq IS NOT NULL),
busy AS (SELECT DISTINCT rank FROM facts.log_line WHERE timed_out AND rank IS NOT NULL),  -- also in a send or receive
front AS (  -- per group what most wait in
  SELECT grp, any_value(label) AS label, mode(seq) AS seq, count(*) AS n, max(group_size) AS size, max(rank) AS last,
    count(*) FILTER (seq = (SELECT mode(w.seq) FROM waiting AS w WHERE w.grp = waiting.grp)) AS agreed
  FROM waiting GROUP BY grp
),
member AS (  -- ranks inside a group -> ranks of the job
  SELECT grp, group_rank, any_value(rank) AS rank FROM facts.log_line
  WHERE grp IS NOT NULL AND group_rank IS NOT NULL AND rank IS NOT NULL AND kind NOT LIKE 'fingerprint%'
  GROUP BY ALL HAVING count(DISTINCT rank) = 1
),
named AS (
  SELECT l.*, coalesce(l.grp, '0') AS place, unnest(l.ranks) AS local FROM facts.log_line AS l
  WHERE kind IN ('monitored_barrier', 'desync_lagging_finished', 'desync_missing')
),
arrived AS (
  SELECT max(world_size) AS world, max(joined) AS joined, list(DISTINCT group_rank) AS came, any_value(path) AS path, min(line) AS line, any_value(text) AS text
  FROM facts.log_line WHERE kind = 'store_barrier'
),
issued AS (SELECT rank, max(count) AS count, arg_max(path, line) AS path, max(line) AS line, arg_max(text, line) AS text, any_value(size) AS size FROM facts.log_call GROUP BY rank)
SELECT category, NULL AS grp, NULL AS label, NULL::BIGINT AS seq, rank, path, line, text FROM facts.log_dead
UNION ALL
SELECT 'rank_not_joined', n.place, coalesce(n.label, 'default_pg'), n.seq, coalesce(m.rank, CASE n.place WHEN '0' THEN n.local END) AS rank, n.path, n.line, n.text
FROM named AS n LEFT JOIN member AS m ON m.grp = n.place AND m.group_rank = n.local
WHERE coalesce(m.rank, CASE n.place WHEN '0' THEN n.local END) IS NOT NULL
UNION ALL
SELECT 'rank_not_joined', '0', 'default_pg', NULL, peer_rank, path, line, text FROM facts.log_line WHERE kind = 'unique_id' AND regexp_matches(text, '[Tt]ime')
UNION ALL  -- the store counts those that came: with all of them in the log the others are known
SELECT 'rank_not_joined', '0', 'default_pg', NULL, unnest(list_filter(range(0, least(coalesce(world, 0), 100000)), lambda r: NOT list_contains(came, r))), path, line, text
FROM arrived WHERE len(came) = joined
UNION ALL  -- enqueued equals completed, below what the others wait in: never entered, and waits for nothing
SELECT 'rank_not_joined', w.grp, w.label, f.seq, w.rank, w.path, w.line, w.text
FROM facts.log_wait AS w JOIN front AS f USING (grp)
WHERE w.seq IS NULL AND w.enq < f.seq AND w.enq = coalesce(w.done, w.enq) AND w.rank NOT IN (SELECT rank FROM busy)
UNION ALL  -- another operation than the others: they do not pair
SELECT 'collective_skipped', w.grp, w.label, f.seq, w.rank, w.path, w.line, w.text
FROM waiting AS w JOIN front AS f USING (grp)
WHERE w.seq <> f.seq AND f.agreed * 2 > f.n
UNION ALL  -- no majority, and nobody unseen who could give one: all that differ
SELECT 'collective_skipped', w.grp, w.label, (SELECT max(v.seq) FROM waiting AS v WHERE v.grp = w.grp), w.rank, w.path, w.line, w.text
FROM waiting AS w JOIN front AS f USING (grp)
WHERE f.agreed < f.n AND f.agreed * 2 <= f.n AND f.n = coalesce(f.size, CASE f.grp WHEN '0' THEN f.last + 1 END)
UNION ALL  -- calls that were issued, where somebody ran out of time
SELECT 'rank_not_joined', '0', 'default_pg', (SELECT max(count) FROM issued), rank, path, line, text FROM issued
WHERE count < (SELECT max(count) FROM issued) AND (SELECT count(*) > 0 FROM busy) AND rank NOT IN (SELECT rank FROM busy)
  AND (SELECT count(*) = max(size) FROM issued)
UNION ALL
SELECT 'all_joined_none_finished', grp, label, seq, NULL, NULL, NULL, NULL FROM front WHERE n = size AND agreed = n
