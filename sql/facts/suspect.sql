-- summary: "Everything that could be the verdict, under the hypothesis that explains most with least."
-- grain: one (category, event, rank)
-- reads: [facts.block, facts.cycle, facts.fate, facts.holder, facts.late, facts.mismatch, facts.root, facts.shift]
-- optional: {facts.log_suspect: python.torch_nccl_watchdog_log, facts.ras_suspect: nccl.ras_status}
-- rules: [V5, V6, V9, L2, L8]
-- columns:
--   ignoring: {doc: "The hypothesis, see facts.block; the same in all rows."}
--   event: {doc: "Where it shows; NULL for operations that are over, and for what logs or NCCL RAS say."}
--   gid: {doc: The group.}
--   seq: {doc: Sequence number.}
--   rank: {doc: Accused; NULL where nobody is.}
--   category: {doc: Category of the diagnosis.}
--   nth: {doc: "Place of the category in the order of verdicts; what a log says outright comes before 1."}
--   in_verdict: {doc: It is part of the verdict; else a warning beside it.}
--   by_log: {doc: A log says it; else dumps do.}
WITH found AS (
  SELECT ignoring, event, rank, category FROM facts.root
  UNION SELECT ignoring, event, rank, category FROM facts.cycle
  UNION SELECT l.ignoring, l.event, l.rank, 'late_arrival'
    FROM facts.late AS l JOIN facts.fate AS f USING (ignoring, event) WHERE l.certain AND f.fate = 'late'
  UNION SELECT h.ignoring, h.event, h.rank, 'rank_without_dump'
    FROM facts.holder AS h JOIN facts.fate AS f USING (ignoring, event) WHERE h.why IN ('unseen', 'stale') AND f.fate = 'unseen'
  UNION SELECT b.ignoring, b.event, b.rank, 'stuck_on_device'
    FROM facts.block AS b JOIN facts.fate AS f USING (ignoring, event) WHERE f.fate = 'last_one' AND b.one_way
  UNION SELECT ignoring, event, NULL, 'insufficient_evidence' FROM facts.fate WHERE fate IN ('unclear', 'outnumbered', 'inferred')
  UNION SELECT ignoring, event, NULL, 'all_joined_none_finished' FROM facts.fate WHERE fate = 'all_joined'
),
-- lone unnoticed operations are nothing as long as something else explains the wait without them
explained AS (
  -- of a rank that is behind its peers: only a named rank, a circle or a late rank, not that nobody is to blame
  SELECT coalesce(bool_or(fate IN ('rooted', 'circular', 'late')), false) AS without FROM facts.fate WHERE ignoring
),
chosen AS (
  SELECT f.ignoring, f.event, b.gid, b.seq, f.rank, f.category
  FROM found AS f
  JOIN (SELECT DISTINCT ignoring, event, gid, seq FROM facts.block) AS b ON b.ignoring = f.ignoring AND b.event = f.event
  JOIN explained AS x ON x.without = f.ignoring
),
over AS (  -- operations that finished although they differ: garbage, or the trace of what went wrong
  SELECT (SELECT without FROM explained) AS ignoring, NULL::BIGINT AS event, m.gid, m.seq,
    CASE WHEN s.rank IS NOT NULL OR NOT m.undecided THEN m.rank END AS rank,
    CASE WHEN s.rank IS NOT NULL THEN 'collective_skipped' ELSE 'collective_' || m.aspect || '_mismatch' END AS category
  FROM facts.mismatch AS m LEFT JOIN facts.shift AS s ON s.gid = m.gid AND s.rank = m.rank
  WHERE m.finished
),
placed AS (
  SELECT *, true AS open FROM chosen UNION ALL SELECT *, false FROM over
),
numbered AS (
  SELECT *, list_position([
    'collective_skipped', 'collective_type_mismatch', 'collective_size_mismatch', 'collective_dtype_mismatch', 'p2p_unmatched',
    'group_order_deadlock', 'stuck_on_device', 'rank_not_joined', 'late_arrival', 'rank_without_dump', 'insufficient_evidence',
    'all_joined_none_finished'], category) AS nth
  FROM placed
),
judged AS (
  SELECT
    ignoring, event, gid, seq, rank, category, nth,
    CASE
      WHEN open AND nth < 10 THEN true
      WHEN open THEN nth = min(nth) FILTER (open) OVER () AND NOT (nth > 10 AND bool_or(NOT open) OVER ())
      ELSE NOT coalesce(bool_or(open AND nth <= 10) OVER (), false)
    END AS in_verdict
  FROM numbered
)
{% if "python.torch_nccl_watchdog_log" in has %}
-- A log that says who died, or whose device failed, is the stronger witness. One that only repeats timeouts is not: it
-- counts where the dumps name nobody, and where they say nothing it counts alone.
, seen AS (SELECT coalesce(min(nth) FILTER (in_verdict), 99) AS best FROM judged),
told AS (SELECT coalesce(min(nth) FILTER (leads), 99) AS best FROM facts.log_suspect),
logged AS (
SELECT
  ignoring, event, gid, seq, rank, category, nth,
  in_verdict AND (SELECT best >= 0 FROM told) AND NOT (nth >= 10 AND (SELECT best < 10 FROM told)) AS in_verdict,
  false AS by_log
FROM judged
UNION ALL
SELECT
  false, NULL, NULL, seq, rank, category, nth,
  leads AND (nth < 0 OR (nth < 10 AND (SELECT best >= 10 FROM seen)) OR (SELECT best = 99 FROM seen)),
  true
FROM facts.log_suspect
)
{% else %}
, logged AS (SELECT *, false AS by_log FROM judged)
{% endif %}
{% if 'nccl.ras_status' in has %}
-- RAS leads where neither dumps nor logs name anybody but the unseen: seen beats unseen. Dumps in which nothing is open win.
, standing AS (
  SELECT coalesce(bool_or(nth < 10), false) AS ras,
    (SELECT coalesce(min(nth) FILTER (in_verdict) IN (10, 11), {{ 'python.torch_nccl_dump' not in has }}) FROM logged) AS allowed
  FROM facts.ras_suspect WHERE leads
)
SELECT ignoring, event, gid, seq, rank, category, nth, in_verdict AND NOT (nth IN (10, 11) AND l.ras AND l.allowed) AS in_verdict, by_log
FROM logged, standing AS l
UNION ALL
SELECT false, NULL, NULL, NULL, rank, category, nth,
  leads AND l.allowed AND (l.ras AND nth < 10 OR NOT EXISTS (FROM logged WHERE in_verdict)), false
FROM facts.ras_suspect, standing AS l
{% else %}
SELECT * FROM logged
{% endif %}
