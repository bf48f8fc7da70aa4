-- summary: "Members that entered an open collective later than the earliest by more than its timeout, clocks allowed for."
-- grain: one (hypothesis, event, late rank)
-- reads: [facts.block, facts.op]
-- rules: [V8]
-- params:
--   default_timeout_ms: {type: integer, default: 600000, doc: "Where the dump does not record a timeout (before FR 2.4)."}
-- columns:
--   ignoring: {doc: "Hypothesis, see facts.block."}
--   event: {doc: The event.}
--   rank: {doc: The late rank.}
--   late_ns: {unit: ns, doc: "Later than the earliest, after the usual difference of the two clocks is subtracted."}
--   timeout_ns: {unit: ns, doc: What it had.}
--   certain: {doc: "The clocks could be compared: the two ranks share earlier synchronising operations."}
WITH event AS (SELECT DISTINCT ignoring, event, gid, seq FROM facts.block WHERE NOT is_p2p),
entered AS (
  SELECT e.ignoring, e.event, e.gid, e.seq, o.rank, o.ord, o.created_ns, o.timeout_ms,
    min(o.rank) OVER (PARTITION BY e.ignoring, e.event) AS base
  FROM event AS e JOIN facts.op AS o USING (gid, seq)
),
clock AS (  -- the usual difference between a rank's clock (and habits) and that of the lowest rank there
  SELECT e.ignoring, e.event, e.rank, median(x.created_ns - y.created_ns) AS offset_ns
  FROM entered AS e
  JOIN facts.op AS x ON x.rank = e.rank AND x.synchronising AND x.seq IS NOT NULL AND x.ord < e.ord
  JOIN facts.op AS y ON y.gid = x.gid AND y.seq = x.seq AND y.rank = e.base
  WHERE e.rank <> e.base
  GROUP BY ALL
),
corrected AS (
  SELECT e.*, e.created_ns - coalesce(c.offset_ns, 0) AS at_ns, c.rank IS NOT NULL OR e.rank = e.base AS comparable
  FROM entered AS e LEFT JOIN clock AS c ON c.ignoring = e.ignoring AND c.event = e.event AND c.rank = e.rank
),
measured AS (
  SELECT *,
    at_ns - min(at_ns) OVER here AS late_ns,
    coalesce(timeout_ms, $default_timeout_ms) * 1000000 AS timeout_ns,
    comparable AND arg_min(comparable, at_ns) OVER here AS certain,
    count(*) OVER here AS n
  FROM corrected
  WINDOW here AS (PARTITION BY ignoring, event)
)
SELECT ignoring, event, rank, late_ns::BIGINT AS late_ns, timeout_ns, certain
FROM measured
WHERE late_ns > timeout_ns
QUALIFY count(*) OVER (PARTITION BY ignoring, event) < n
