-- summary: "What the other members did at each sequence number, from the view of each rank that differs somewhere."
-- grain: one (group, sequence number, rank)
-- reads: [facts.op, facts.tally]
-- rules: [L3, L4]
-- columns:
--   gid: {doc: The group.}
--   rank: {doc: The rank that is compared.}
--   seq: {doc: Sequence number.}
--   own_call: {doc: Its own call_id; NULL where its dump has none.}
--   own_site: {doc: Its own call site.}
--   call: {doc: call_id of the strict majority of the others; NULL without one.}
--   site: {doc: Call site of the strict majority of the others.}
WITH split AS (
  SELECT gid, seq FROM facts.tally WHERE call_min <> call_max OR site_min <> site_max
),
top AS (
  SELECT gid, seq, arg_max(call_id, n) AS call, max(n) AS n FROM (
    SELECT gid, seq, call_id, count(*) AS n FROM facts.op JOIN split USING (gid, seq) GROUP BY ALL)
  GROUP BY gid, seq
),
top_site AS (
  SELECT gid, seq, arg_max(call_site_id, n) AS site, max(n) AS n, sum(n) AS known FROM (
    SELECT gid, seq, call_site_id, count(*) AS n FROM facts.op JOIN split USING (gid, seq) WHERE call_site_id IS NOT NULL GROUP BY ALL)
  GROUP BY gid, seq
),
agreed AS (
  SELECT
    t.gid, t.seq, t.n, t.call_min, t.call_max, t.site_min, t.site_max,
    coalesce(c.call, t.call_min) AS call, coalesce(c.n, t.n) AS n_call,
    coalesce(s.site, t.site_min) AS site, coalesce(s.n, t.n) AS n_site, coalesce(s.known, t.n) AS known
  FROM facts.tally AS t
  LEFT JOIN top AS c USING (gid, seq)
  LEFT JOIN top_site AS s USING (gid, seq)
  WHERE t.gid IN (SELECT gid FROM split)
),
suspect AS (
  SELECT DISTINCT o.gid, o.rank
  FROM facts.op AS o JOIN agreed AS a USING (gid, seq)
  WHERE o.call_id <> a.call OR o.call_site_id <> a.site OR (a.n = 2 AND (a.call_min <> a.call_max OR a.site_min <> a.site_max))
)
SELECT
  a.gid, x.rank, a.seq, o.call_id AS own_call, o.call_site_id AS own_site,
  CASE
    WHEN a.n = 2 AND o.rank IS NOT NULL THEN CASE WHEN o.call_id = a.call_min THEN a.call_max ELSE a.call_min END
    WHEN 2 * (a.n_call - (o.call_id IS NOT DISTINCT FROM a.call)::INT) > a.n - (o.rank IS NOT NULL)::INT THEN a.call
  END AS call,
  CASE
    WHEN a.n = 2 AND a.known = 2 AND o.rank IS NOT NULL THEN CASE WHEN o.call_site_id = a.site_min THEN a.site_max ELSE a.site_min END
    WHEN 2 * (a.n_site - (o.call_site_id IS NOT DISTINCT FROM a.site)::INT) > a.known - (o.call_site_id IS NOT NULL)::INT THEN a.site
  END AS site
FROM agreed AS a
JOIN suspect AS x ON x.gid = a.gid
LEFT JOIN facts.op AS o ON o.gid = a.gid AND o.seq = a.seq AND o.rank = x.rank
WHERE a.n > (o.rank IS NOT NULL)::INT
