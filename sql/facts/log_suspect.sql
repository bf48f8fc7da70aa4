-- summary: "What the logs alone make of it: who died or failed, who stayed away, who differs."
-- grain: one (category, group, seq, rank)
-- reads: [facts.log_accused, facts.log_line, facts.log_mismatch, facts.log_wait]
-- rules: [V9, L3]
-- columns:
--   category: {doc: Category of the diagnosis.}
--   nth: {doc: "Place in the order of verdicts; said outright by a log comes before 1."}
--   leads: {doc: "No stronger statement of the logs explains it."}
--   grp: {doc: The group.}
--   label: {doc: What people call it.}
--   seq: {doc: Sequence number.}
--   rank: {doc: Accused; NULL where nobody is.}
--   own: {doc: "What it called, where calls differ."}
--   others: {doc: What most others called.}
--   path: {doc: File that says so.}
--   line: {doc: Line that says so.}
--   text: {doc: What it says.}
WITH front AS (  -- per group what most wait in
  SELECT grp, any_value(label) AS label, mode(seq) AS seq, count(*) AS n FROM facts.log_wait WHERE seq IS NOT NULL GROUP BY grp
),
found AS (
  SELECT *, NULL AS own, NULL AS others FROM facts.log_accused
  UNION ALL BY NAME SELECT * FROM facts.log_mismatch
  UNION ALL BY NAME
  SELECT 'insufficient_evidence' AS category, 
    (SELECT arg_max(grp, n) FROM front) AS grp, (SELECT arg_max(label, n) FROM front) AS label, (SELECT arg_max(seq, n) FROM front) AS seq,
    arg_min(l.path, l.line) AS path, min(l.line) AS line, arg_min(l.text, l.line) AS text
  FROM facts.log_line AS l
  WHERE (l.hurt AND (l.kind <> 'exception' OR regexp_matches(l.text, 'Dist\w*Error|NCCL|[Gg]loo|c10d|collectives|ChildFailed'))) OR l.kind IN ('elastic_failed', 'crash', 'ray_died', 'oom_killed', 'node_failed', 'dump_received', 'dump_received_old', 'dump_observed', 'dump_first', 'heartbeat_stuck', 'heartbeat_old', 'terminating', 'gil', 'desync_head')
    OR (l.kind = 'scheduler_end' AND l.text NOT LIKE '%Terminated%')
    OR (l.kind = 'elastic_failure' AND l.exit_code NOT IN (0, -15, 143))
  HAVING count(*) > 0
),
placed AS (
  SELECT *, list_position(['device_error', 'rank_died', 'network_error',
    'collective_skipped', 'collective_type_mismatch', 'collective_size_mismatch', 'collective_dtype_mismatch', 'p2p_unmatched', 'group_order_deadlock',
    'stuck_on_device', 'rank_not_joined', 'late_arrival', 'rank_without_dump', 'all_joined_none_finished', 'insufficient_evidence'], category) - 3 AS place
  FROM found
)
SELECT category, CASE category WHEN 'insufficient_evidence' THEN 11 WHEN 'all_joined_none_finished' THEN 12 ELSE place END AS nth,
  CASE WHEN place <= -1 THEN NOT (rank IS NULL AND bool_or(rank IS NOT NULL AND place <= -1) OVER ())
    WHEN place = 0 OR place > 9 THEN place = min(place) OVER () ELSE min(place) OVER () > 0 END AS leads,
  grp, label, seq, rank, own, others, path, line, text
FROM placed
WHERE NOT (category = 'insufficient_evidence' AND place > (SELECT min(place) FROM placed))
QUALIFY row_number() OVER (PARTITION BY category, grp, seq, rank ORDER BY line) = 1
