-- summary: "Who stands apart, and whether that is a hang at all: what stacks, kernel and Flight Recorder say together."
-- grain: one (finding, rank)
-- reads: [facts.stand]
-- optional: {cluster.nodes: cluster.nodes, facts.suspect: python.torch_nccl_dump, facts.dump: python.torch_nccl_dump, facts.kernel_event: process.kmsg}
-- rules: [V4, V5, V10]
-- columns:
--   told: {doc: "The check that tells it: `process_unresponsive`, `stack_apart`, `stack_together`, `stack_unclear`, `kernel_error`."}
--   category: {doc: Category of the diagnosis.}
--   rank: {doc: Accused; NULL where nobody is.}
--   spot: {doc: Where it stands.}
--   nth: {doc: Place of the category in the order of verdicts.}
--   in_verdict: {doc: It is part of the verdict; else a warning beside it.}
WITH said AS (  -- by the dumps
  {% if 'python.torch_nccl_dump' in has %}
  SELECT rank, category, nth FROM facts.suspect WHERE in_verdict
  {% else %}SELECT NULL::BIGINT AS rank, NULL::VARCHAR AS category, NULL::INTEGER AS nth WHERE false{% endif %}
),
size AS (
  {% if 'cluster.nodes' in has %}SELECT coalesce(max(world_size), 0) AS ranks FROM {{ cluster }}.nodes WHERE snapshot_id LIKE '%-stacks-%'
  {% else %}SELECT 0::BIGINT AS ranks{% endif %}
),
dumps AS (
  {% if 'python.torch_nccl_dump' in has %}SELECT count(*) > 0 AS given FROM facts.dump
  {% else %}SELECT false AS given{% endif %}
),
kernel AS (
  {% if 'process.kmsg' in has %}
  SELECT rank, CASE WHEN kind IN ('xid', 'gpu') THEN 'device_error' WHEN kind = 'oom' THEN 'rank_died' WHEN kind = 'infiniband' THEN 'network_error' END AS category
  FROM facts.kernel_event
  {% else %}SELECT NULL::BIGINT AS rank, NULL::VARCHAR AS category WHERE false{% endif %}
),
crowd AS (
  SELECT
    count(*) FILTER (stack IS NOT NULL) AS seen,
    count(*) FILTER (waits) AS waiting,
    count(*) FILTER (NOT waits AND spot NOT IN ('stopped', 'dead')) AS outside,
    count(*) FILTER (spot IN ('stopped', 'dead')) AS lost,
    count(DISTINCT stack) FILTER (stack IS NOT NULL) AS places,
    -- a transfer has no members that could all have joined, and a process group in the making even less
    coalesce(bool_and(spot = 'collective' AND NOT regexp_matches(spot_frame, ' in (i?send|i?recv|batch_isend_irecv)$')), false) AS all_in_collective,
    mode(stack) FILTER (spot IN ('user', 'sleep', 'lock', 'network', 'process')) AS usual,
    coalesce(bool_or(waits AND NOT still), false) AS waiters_move,
    coalesce(bool_or(NOT still), false) AS some_move
  FROM facts.stand
),
usual AS (  -- a place that most share although no rule knows it: where the program waits for its device
  SELECT count(*) FILTER (s.stack = c.usual) * 2 > any_value(c.seen) AND any_value(c.seen) > 2 AS shared FROM facts.stand AS s, crowd AS c
),
judged AS (
  SELECT *,
    -- who waits moves on, or nobody has anything open: the job lives
    CASE WHEN given THEN NOT EXISTS (FROM said) WHEN waiting > 0 THEN waiters_move ELSE some_move AND lost = 0 END AS alive,
    EXISTS (FROM said WHERE rank IS NOT NULL) AS dumps_name,
    EXISTS (FROM said WHERE category = 'all_joined_none_finished') AS all_joined,
    seen > 0 AS looked,
    -- a rank that is not where the others wait is waited for, unless there are too many of them
    waiting > 0 AND outside > 0 AND outside * 2 <= seen AS apart,
    waiting = 0 AND coalesce(shared, false) AS apart_from_usual
  FROM crowd, usual, dumps
),
found AS (
  SELECT 'kernel_error' AS told, k.category, k.rank FROM kernel AS k, judged AS j
  WHERE k.category IS NOT NULL AND (NOT j.looked OR (NOT j.alive AND k.rank IS NOT NULL))
  UNION
  SELECT CASE WHEN s.spot IN ('stopped', 'dead', 'silent') THEN 'process_unresponsive' ELSE 'stack_apart' END, d.category, d.rank
  FROM said AS d JOIN judged AS j ON j.dumps_name LEFT JOIN facts.stand AS s USING (rank)
  WHERE d.rank IS NOT NULL
  UNION
  SELECT 'process_unresponsive', CASE s.spot WHEN 'dead' THEN 'rank_died' ELSE 'rank_not_joined' END, s.rank
  FROM facts.stand AS s, judged AS j
  WHERE NOT j.alive AND NOT j.dumps_name AND s.spot IN ('stopped', 'dead') AND j.seen > 0
  UNION
  SELECT 'stack_apart', 'rank_not_joined', s.rank
  FROM facts.stand AS s, judged AS j, crowd AS c
  WHERE NOT j.alive AND NOT j.dumps_name AND NOT j.all_joined AND NOT s.waits AND s.spot NOT IN ('stopped', 'dead')
    AND (j.apart OR (j.apart_from_usual AND s.named AND s.stack <> c.usual))
  UNION
  SELECT 'process_unresponsive', 'rank_without_dump', s.rank
  FROM facts.stand AS s, judged AS j
  WHERE NOT j.alive AND NOT j.dumps_name AND NOT j.all_joined AND s.spot = 'silent' AND j.waiting > 0 AND NOT j.apart AND j.lost = 0
),
rest AS (  -- nobody stands apart
  SELECT CASE WHEN j.places = 1 THEN 'stack_together' ELSE 'stack_unclear' END AS told,
    CASE WHEN j.all_joined OR (j.places = 1 AND j.all_in_collective AND NOT j.given AND j.seen >= (SELECT ranks FROM size)) THEN 'all_joined_none_finished' ELSE 'insufficient_evidence' END AS category, NULL::BIGINT AS rank
  FROM judged AS j
  WHERE NOT j.alive AND j.seen > 1 AND NOT EXISTS (FROM found WHERE rank IS NOT NULL)
),
numbered AS (
  SELECT *, list_position(['device_error', 'rank_died', 'network_error', 'collective_skipped', 'collective_type_mismatch', 'collective_size_mismatch',
    'collective_dtype_mismatch', 'p2p_unmatched', 'group_order_deadlock', 'stuck_on_device', 'rank_not_joined', 'late_arrival', 'rank_without_dump',
    'insufficient_evidence', 'all_joined_none_finished'], category) AS nth
  FROM (FROM found UNION ALL FROM rest)
)
-- what the kernel or the process table says outright leaves the rest beside the verdict
SELECT n.told, n.category, n.rank, s.spot, n.nth, n.nth <= 3 OR min(n.nth) OVER () > 3 AS in_verdict
FROM numbered AS n LEFT JOIN facts.stand AS s USING (rank)
