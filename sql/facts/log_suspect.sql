-- summary: "What the logs alone make of it: who died or failed, who stayed away, who differs."
-- grain: one (category, group, seq, rank)
-- reads: [facts.log_line, facts.log_mismatch, facts.log_wait]
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
WITH waiting AS (FROM facts.log_wait WHERE seq IS NOT NULL),
front AS (  -- per group what most wait in
  SELECT grp, any_value(label) AS label, mode(seq) AS seq, count(*) AS n, max(group_size) AS size,
    count(*) FILTER (seq = (SELECT mode(w.seq) FROM waiting AS w WHERE w.grp = waiting.grp)) AS agreed
  FROM waiting GROUP BY grp
),
died AS (
  SELECT rank, path, line, text, logged_at, exit_code < 0 OR exit_code > 128 AS by_signal
  FROM facts.log_line
  WHERE kind = 'elastic_failure' AND is_first AND exit_code NOT IN (0, -15, 143) AND rank IS NOT NULL
    AND rank NOT IN (SELECT rank FROM facts.log_line WHERE hurt AND rank IS NOT NULL)
),
said AS (
  SELECT 'device_error' AS category, NULL AS grp, NULL AS label, NULL::BIGINT AS seq, rank, path, line, text
  FROM facts.log_line
  WHERE (kind IN ('cuda_error', 'n2_cuda', 'nccl_cuda', 'xid') OR (kind = 'watchdog_terminated' AND text LIKE '%CUDA error%'))
    AND NOT hurt_before AND text NOT ILIKE '%out of memory%' AND text NOT ILIKE '%shutting down%'
  UNION ALL  -- of the agents' first failures those by a signal, else the earliest: the others follow
  SELECT 'rank_died', NULL, NULL, NULL, rank, path, line, text FROM died
  WHERE by_signal OR (NOT (SELECT bool_or(by_signal) FROM died) AND logged_at IS NOT DISTINCT FROM (SELECT min(logged_at) FROM died))
  UNION ALL
  SELECT 'rank_died', NULL, NULL, NULL, rank, path, line, text FROM facts.log_line
  WHERE NOT hurt_before AND rank IS NOT NULL AND (kind = 'cuda_oom' OR (kind IN ('cuda_error', 'nccl_cuda') AND text ILIKE '%out of memory%')
    OR (kind = 'exception' AND NOT hurt AND (EXISTS (FROM facts.log_line AS e WHERE e.kind LIKE 'elastic_fail%')
      OR EXISTS (FROM waiting AS w WHERE w.rank <> log_line.rank)) AND rank NOT IN (SELECT rank FROM waiting)))
  UNION ALL
  SELECT 'rank_died', NULL, NULL, NULL, unnest(ranks), path, line, text FROM facts.log_line
  WHERE kind = 'scheduler_end' AND regexp_matches(text, 'Segmentation|Bus error|Out Of Memory|signal (7|9|11)\b')
  UNION ALL
  SELECT 'rank_died', NULL, NULL, NULL, (SELECT any_value(p.rank) FROM facts.log_line AS p WHERE p.pid = l.pid AND p.rank IS NOT NULL), path, line, text
  FROM facts.log_line AS l
  WHERE kind IN ('ray_died', 'oom_killed') OR (kind = 'elastic_failed' AND exit_code IN (-4, -7, -8, -9, -11) AND NOT EXISTS (FROM facts.log_line WHERE kind = 'elastic_failure'))
  UNION ALL  -- before anybody ran out of time; afterwards connections close because processes end
  SELECT 'network_error', NULL, NULL, NULL, NULL, path, line, text FROM facts.log_line AS l
  WHERE (kind IN ('nccl_closed', 'nccl_ib', 'n2_async', 'gloo_peer') OR (kind IN ('async_error', 'nccl_error_kind') AND regexp_matches(text, 'remote|network|Remote|System')))
    AND NOT EXISTS (FROM facts.log_line AS t WHERE t.path = l.path AND t.line < l.line AND t.kind IN ('watchdog_timeout', 'n2_timeout', 'blocking_wait', 'dump_received'))
  UNION ALL
  SELECT 'rank_not_joined', coalesce(grp, '0'), coalesce(label, 'default_pg'), seq, unnest(ranks), path, line, text FROM facts.log_line
  WHERE kind IN ('monitored_barrier', 'desync_lagging_finished', 'desync_missing')
  UNION ALL
  SELECT 'rank_not_joined', '0', 'default_pg', NULL, peer_rank, path, line, text FROM facts.log_line WHERE kind = 'unique_id'
  UNION ALL  -- the store counts those that came: with all of them in the log the others are known
  SELECT 'rank_not_joined', '0', 'default_pg', NULL, unnest(list_filter(range(0, least(coalesce(world, 0), 100000)), lambda r: NOT list_contains(came, r))), path, line, text
  FROM (SELECT max(world_size) AS world, max(joined) AS joined, list(DISTINCT group_rank) AS came, any_value(path) AS path, min(line) AS line, any_value(text) AS text
    FROM facts.log_line WHERE kind = 'store_barrier') WHERE len(came) = joined
  UNION ALL  -- enqueued equals completed, below what the others wait in: never entered, and waits for nothing
  SELECT 'rank_not_joined', w.grp, w.label, f.seq, w.rank, w.path, w.line, w.text
  FROM facts.log_wait AS w JOIN front AS f USING (grp)
  WHERE w.seq IS NULL AND w.enq < f.seq AND w.enq = coalesce(w.done, w.enq) AND w.rank NOT IN (SELECT rank FROM waiting)
  UNION ALL  -- an earlier operation than the others: they do not pair
  SELECT 'collective_skipped', w.grp, w.label, f.seq, w.rank, w.path, w.line, w.text
  FROM waiting AS w JOIN front AS f USING (grp) WHERE w.seq <> f.seq AND f.agreed * 2 > f.n
  UNION ALL
  SELECT 'all_joined_none_finished', grp, label, seq, NULL, NULL, NULL, NULL FROM front WHERE n = size AND agreed = n
),
found AS (
  SELECT *, NULL AS own, NULL AS others FROM said
  UNION ALL BY NAME SELECT * FROM facts.log_mismatch
  UNION ALL BY NAME
  SELECT 'insufficient_evidence' AS category, any_value(coalesce(f.grp, l.grp)) AS grp, any_value(coalesce(f.label, l.label)) AS label, max(f.seq) AS seq, arg_min(l.path, l.line) AS path, min(l.line) AS line, arg_min(l.text, l.line) AS text
  FROM facts.log_line AS l LEFT JOIN front AS f ON f.grp = l.grp
  WHERE l.hurt OR l.kind IN ('dump_received', 'dump_received_old', 'dump_observed', 'dump_first', 'heartbeat_stuck', 'heartbeat_old', 'terminating', 'gil', 'desync_head')
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
