-- summary: Who differs from whom in operation, sizes or dtypes of the same collective.
-- grain: one (group, sequence number, rank) that is odd there
-- reads: [facts.member, facts.op, facts.peak, facts.signature, facts.tally]
-- rules: [L1, L3, L8]
-- columns:
--   gid: {doc: The group.}
--   seq: {doc: Sequence number.}
--   rank: {doc: The rank that differs.}
--   aspect: {doc: "`type`, `size` or `dtype`; the first in which it differs."}
--   clear: {doc: "It stands against a strict majority of three or more; otherwise all that differ are listed."}
--   undecided: {doc: "No majority among those seen, and members without a dump could tell: it accuses nobody."}
--   own: {doc: What this rank passed.}
--   others: {doc: What most others passed.}
--   finished: {doc: "The operation is over all the same: garbage rather than a hang."}
WITH called AS (
  SELECT
    o.gid, o.seq, o.rank, s.op,
    -- what has finished is judged by what the library requires, the number of elements
    CASE WHEN o.call_id <> s.compare_id THEN 'parts ' || o.call_id WHEN o.seq <= k.peak THEN s.numel_key ELSE s.shape_key END AS size,
    s.dtype_key AS dtype,
    bool_and(o.done OR o.seq <= k.peak) OVER (PARTITION BY o.gid, o.seq) AS finished
  FROM facts.tally AS t
  JOIN facts.op AS o USING (gid, seq)
  JOIN facts.signature AS s ON s.signature_id = o.signature_id
  JOIN facts.peak AS k ON k.gid = o.gid
  WHERE t.call_min <> t.call_max
),
by_type AS (SELECT *, count(*) OVER (PARTITION BY gid, seq, op) AS alike, count(*) OVER (PARTITION BY gid, seq) AS n FROM called),
by_size AS (
  SELECT *, count(*) OVER (PARTITION BY gid, seq, op, size) AS alike_size, count(size) OVER (PARTITION BY gid, seq, op) AS n_size FROM by_type
),
by_dtype AS (
  SELECT *,
    count(*) OVER (PARTITION BY gid, seq, op, size, dtype) AS alike_dtype, count(dtype) OVER (PARTITION BY gid, seq, op, size) AS n_dtype
  FROM by_size
),
voted AS (
  SELECT gid, seq, rank, 'type' AS aspect, 1 AS nth, op AS own, alike, n, finished FROM by_dtype
  UNION ALL SELECT gid, seq, rank, 'size', 2, size, alike_size, n_size, finished FROM by_dtype WHERE size IS NOT NULL
  UNION ALL SELECT gid, seq, rank, 'dtype', 3, dtype, alike_dtype, n_dtype, finished FROM by_dtype WHERE dtype IS NOT NULL
),
scored AS (
  SELECT v.*, b.op AS within_op, CASE WHEN v.nth = 3 THEN b.size END AS within_size
  FROM voted AS v JOIN by_dtype AS b USING (gid, seq, rank)
),
judged AS (
  SELECT
    *,
    max(alike) OVER same AS top,
    count(DISTINCT own) OVER same AS kinds,
    arg_max(own, alike) OVER same AS others,
    -- two values equally frequent: nobody is the majority
    count(DISTINCT CASE WHEN alike = top_alike THEN own END) OVER same AS tops
  FROM (SELECT *, max(alike) OVER same AS top_alike FROM scored
        WINDOW same AS (PARTITION BY gid, seq, nth, CASE WHEN nth > 1 THEN within_op END, within_size)) AS s
  WINDOW same AS (PARTITION BY gid, seq, nth, CASE WHEN nth > 1 THEN within_op END, within_size)
),
odd AS (
  SELECT gid, seq, rank, aspect, nth, own, others, finished, tops = 1 AND 2 * top > n - 1 AND n >= 3 AS clear
  FROM judged
  WHERE kinds > 1 AND (NOT (tops = 1 AND 2 * top > n - 1) OR own <> others)
),
first_aspect AS (SELECT * FROM odd QUALIFY nth = min(nth) OVER (PARTITION BY gid, seq, rank)),
-- a tie is settled by another group of three or more in which one of the tied stands alone
elsewhere AS (SELECT DISTINCT gid, rank FROM first_aspect WHERE clear)
SELECT f.gid, f.seq, f.rank, f.aspect, f.clear,
  NOT f.clear AND e.rank IS NULL AND f.gid IN (SELECT gid FROM facts.member WHERE NOT seen) AS undecided,
  f.own, CASE WHEN f.clear THEN f.others END AS others, f.finished
FROM first_aspect AS f
LEFT JOIN (SELECT DISTINCT rank FROM elsewhere) AS e ON e.rank = f.rank
QUALIFY f.clear OR e.rank IS NOT NULL OR NOT bool_or(e.rank IS NOT NULL) OVER (PARTITION BY f.gid, f.seq, f.aspect)
