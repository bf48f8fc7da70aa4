-- summary: "What was not seen, or seen with a doubt; what could change the verdict comes first."
-- grain: one gap
-- reads: [python.collection_note, facts.block, facts.dump, facts.entry, facts.fate, facts.holder, facts.late, facts.member, facts.pending, facts.position, facts.process_group, facts.ring, facts.snapshot, facts.suspect, facts.usage]
-- optional: {python.torch_nccl_watchdog_log: python.torch_nccl_watchdog_log, facts.log_line: python.torch_nccl_watchdog_log, facts.log_wait: python.torch_nccl_watchdog_log, facts.ras_rank: nccl.ras_status, facts.ras_suspect: nccl.ras_status, facts.finding: nccl.ras_status}
-- rules: [P1, P3, P4, P5, P7, P8, P10, V5, V7, V8]
-- columns:
--   kind: {doc: "Short fixed word; the skill has words for it."}
--   ranks: {doc: "Ranks it is about; empty where it is about all."}
--   detail: {doc: What exactly.}
--   matters: {doc: It could change the verdict.}
WITH found AS (SELECT count(*) > 0 AS something FROM facts.suspect),
judged AS (SELECT DISTINCT ignoring FROM facts.suspect WHERE event IS NOT NULL),
holding AS (SELECT DISTINCT rank, why FROM facts.holder WHERE ignoring IN (FROM judged)),
chosen AS (SELECT * FROM facts.snapshot WHERE chosen),
active AS (SELECT DISTINCT gid FROM facts.block),
gap AS (
  SELECT 'rank_without_dump' AS kind, m.rank, NULL AS detail, EXISTS (FROM holding AS h WHERE h.rank = m.rank) AS matters
  FROM (SELECT DISTINCT rank FROM facts.member WHERE NOT seen) AS m
  UNION ALL
  SELECT n.kind, n.rank, n.message, n.severity = 'error'
  FROM {{ python }}.collection_note AS n
  WHERE n.severity <> 'info' AND n.snapshot_id IN (
    SELECT max(snapshot_id) FROM {{ python }}.collection_note
    WHERE snapshot_id NOT LIKE '%-ras-%' AND snapshot_id NOT LIKE '%-stacks-%' AND snapshot_id NOT LIKE 'log-%')
    AND n.snapshot_id >= (SELECT max(snapshot_id) FROM facts.dump)
    AND (n.snapshot_id IN (SELECT snapshot_id FROM chosen) OR n.snapshot_id NOT IN (SELECT snapshot_id FROM facts.snapshot))
  UNION ALL
  SELECT 'newer_snapshot_not_whole', NULL, s.snapshot_id, true
  FROM facts.snapshot AS s JOIN chosen AS c ON s.job_id = c.job_id AND s.snapshot_id > c.snapshot_id AND NOT s.whole
  UNION ALL
  SELECT 'snapshot_not_whole', NULL, snapshot_id, true FROM chosen WHERE NOT whole
  UNION ALL
  SELECT 'other_jobs', NULL, string_agg(DISTINCT s.job_id, ', ' ORDER BY s.job_id), false
  FROM facts.snapshot AS s JOIN chosen AS c ON s.job_id IS DISTINCT FROM c.job_id HAVING count(s.job_id) > 0
  UNION ALL
  SELECT 'older_dump', rank, NULL, true FROM holding WHERE why = 'stale'
  UNION ALL
  SELECT 'dump_after_error', rank, NULL, true FROM holding WHERE why = 'doubtful'
  UNION ALL
  SELECT 'empty_dump', rank, NULL, NOT any_done FROM facts.ring WHERE says_nothing AND (SELECT something FROM found)
  UNION ALL
  SELECT 'ring_too_short', r.rank, NULL, r.unclear OR r.short
  FROM facts.ring AS r JOIN facts.block AS b ON b.rank = r.rank AND b.ord = r.first_ord
  WHERE NOT r.whole AND NOT r.only_active AND r.entries > 0
  UNION ALL
  SELECT 'unnoticed', p.rank, g.label || ' #' || p.seq, true
  FROM facts.pending AS p JOIN facts.process_group AS g USING (gid)
  WHERE p.may_ignore AND (NOT p.lags OR (SELECT bool_or(ignoring) FROM judged)) AND (SELECT something FROM found)
  UNION ALL
  SELECT 'members_inferred', NULL, g.label, EXISTS (FROM facts.fate WHERE fate = 'inferred')
  FROM facts.process_group AS g JOIN active USING (gid) WHERE NOT g.recorded
  UNION ALL
  SELECT 'number_borrowed', p.rank, g.label, false
  FROM facts.position AS p JOIN facts.process_group AS g USING (gid) JOIN active USING (gid) WHERE p.borrowed
  UNION ALL
  SELECT 'unrecorded_p2p', u.rank, NULL, true
  FROM facts.usage AS u JOIN holding AS h ON h.rank = u.rank AND h.why = 'idle' WHERE u.unrecorded_p2p > 0
  UNION ALL
  SELECT 'clocks_unknown', rank, NULL, true FROM facts.late WHERE NOT certain
  UNION ALL
  SELECT 'numbers_not_aligned', NULL, NULL, true
  FROM facts.ring WHERE per_process_seq HAVING count(*) > 0 AND NOT bool_and(whole)
  UNION ALL
  SELECT 'versions_differ', NULL, string_agg(DISTINCT fr_version, ', ' ORDER BY fr_version), false
  FROM facts.dump HAVING count(DISTINCT fr_version) > 1
  {% if "python.torch_nccl_watchdog_log" in has %}
  UNION ALL
  SELECT 'no_dumps', NULL, NULL, (SELECT something FROM found)
  FROM facts.log_line WHERE NOT EXISTS (FROM facts.dump) AND (SELECT something FROM found) HAVING count(*) > 0
  UNION ALL
  SELECT n.kind, NULL, n.message, n.severity = 'error'
  FROM {{ python }}.collection_note AS n
  WHERE n.severity <> 'info' AND n.snapshot_id = (SELECT max(snapshot_id) FROM {{ python }}.torch_nccl_watchdog_log)
  UNION ALL
  SELECT 'earlier_attempts', NULL, min(attempt) || CASE min(attempt) WHEN 1 THEN ' attempt' ELSE ' attempts' END, false
  FROM facts.log_line HAVING min(attempt) > 0
  UNION ALL
  SELECT 'log_elsewhere', peer_rank, NULL, true
  FROM facts.log_line
  WHERE kind LIKE 'dump_received%'
    AND peer_rank NOT IN (SELECT rank FROM facts.log_line WHERE rank IS NOT NULL UNION ALL SELECT rank FROM facts.dump)
  UNION ALL
  SELECT 'log_silent', r.rank, NULL, true
  FROM (SELECT unnest(range(0, least(coalesce(max(group_size), 0), 100000))) AS rank FROM facts.log_wait WHERE grp = '0') AS r
  WHERE NOT EXISTS (FROM facts.dump) AND r.rank NOT IN (SELECT rank FROM facts.log_line WHERE rank IS NOT NULL)
  UNION ALL
  SELECT 'nccl2_log', NULL, NULL, true
  FROM facts.log_line WHERE kind LIKE 'n2~_%' ESCAPE '~' AND NOT EXISTS (FROM facts.dump) HAVING count(*) > 0
  {% endif %}
  UNION ALL
  SELECT 'stacks_absent', NULL, NULL, false
  FROM facts.entry WHERE (SELECT something FROM found) HAVING count(*) > 0 AND count(stack_id) = 0
  {% if 'nccl.ras_status' in has %}
  UNION ALL SELECT 'ras_disagrees', NULL, NULL, true FROM facts.finding WHERE root AND ras LIKE 'disagrees%'
  UNION ALL SELECT DISTINCT 'ras_once', NULL::BIGINT, NULL, true FROM facts.ras_rank WHERE asked = 1 AND EXISTS (FROM facts.ras_suspect)
  UNION ALL SELECT 'ras_equal', NULL, NULL, true FROM facts.ras_rank WHERE launched IS NOT NULL AND NOT (SELECT something FROM found) HAVING bool_and(least = most)
  {% if 'python.torch_nccl_dump' not in has %}
  UNION ALL SELECT 'ras_alone', NULL, NULL, false FROM found WHERE something
  {% endif %}
  UNION ALL SELECT DISTINCT 'ras_unmapped', NULL::BIGINT, comm_hash, EXISTS (FROM facts.ras_suspect AS s WHERE s.comm = r.comm AND s.rank IS NULL)
  FROM facts.ras_rank AS r WHERE rank IS NULL AND (SELECT something FROM found)
  UNION ALL SELECT 'ras_error', rank, process || ': ncclResult_t ' || async_error, true FROM facts.ras_rank WHERE async_error IS NOT NULL
  UNION ALL SELECT DISTINCT 'ras_ending', NULL::BIGINT, comm_hash, false FROM facts.ras_rank WHERE ending AND least < most
  {% endif %}
  UNION ALL SELECT kind, NULL, message, false FROM {{ python }}.collection_note WHERE severity <> 'info' AND snapshot_id LIKE '%-ras-%'
)
SELECT
  kind,
  coalesce(list_sort(list(DISTINCT rank) FILTER (rank IS NOT NULL)), []) AS ranks,
  string_agg(DISTINCT detail, ', ' ORDER BY detail) AS detail,
  bool_or(matters) AS matters
FROM gap
GROUP BY kind, CASE WHEN kind NOT IN ('members_inferred', 'number_borrowed', 'unnoticed', 'ras_unmapped') THEN detail END
ORDER BY matters DESC, kind, detail
