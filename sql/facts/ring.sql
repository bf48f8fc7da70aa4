-- summary: How much of its history each rank's dump still holds, and whether finished entries were left out.
-- grain: one rank that was seen
-- reads: [python.torch_nccl_pg_status, facts.dump, facts.pg_of_rank, facts.process_group, facts.usage]
-- rules: [P3, P8, P10]
-- columns:
--   rank: {doc: Global rank.}
--   entries: {unit: entries, doc: Entries in the dump.}
--   first_ord: {doc: Position of the oldest entry.}
--   any_done: {doc: Some entry has finished.}
--   has_counters: {doc: The dump holds pg_status counters.}
--   whole: {doc: "Nothing was overwritten: what is not here never happened."}
--   only_active: {doc: "Finished entries were left out: what is not here, up to the newest number, has finished."}
--   short: {doc: "The ring was too short: what it held before its oldest entry is unknown, not finished."}
--   unclear: {doc: "What it waits in may be older than the ring, and no counter tells: its blocking point is unknown."}
--   says_nothing: {doc: "Empty, without counters: it cannot tell what the rank entered."}
--   per_process_seq: {doc: "Some process of the job counts over all its groups (torchcomms): numbers do not align."}
WITH counters AS (
  SELECT p.rank, g.gid, max(p.last_enqueued_collective) AS enqueued, max(p.last_completed_collective) AS completed
  FROM {{ python }}.torch_nccl_pg_status AS p
  JOIN facts.dump AS d ON d.rank = p.rank AND d.snapshot_id = p.snapshot_id
  LEFT JOIN facts.pg_of_rank AS g ON g.rank = p.rank AND g.pg_id = p.pg_id
  WHERE p.last_enqueued_collective IS NOT NULL
  GROUP BY ALL
),
per_rank AS (
  SELECT
    d.rank,
    d.only_active AS asked_only_active,
    coalesce(sum(u.entries), 0)::BIGINT AS entries,
    min(u.first_ord) AS first_ord,
    coalesce(bool_or(u.any_done), false) AS any_done,
    coalesce(bool_or(u.has_record_ids), false) AS has_record_ids,
    coalesce(bool_and(u.reports_completion), true) AS reports_completion,
    max(u.last_ord) - min(u.first_ord) + 1 > sum(u.entries) AND bool_or(u.has_record_ids) AS gaps,
    coalesce(bool_and(u.seq_min <= 1), false) AS from_first_seq,
    -- one counter for the whole process: its range equals the entries, and single groups have holes
    sum(u.entries) = max(u.seq_max) - min(u.seq_min) + 1 AND bool_or(u.seq_max - u.seq_min + 1 > u.collectives) AS one_counter
  FROM facts.dump AS d
  LEFT JOIN facts.usage AS u USING (rank)
  GROUP BY ALL
),
counted AS (
  SELECT rank, max(completed) > 0 AS completed_some FROM counters GROUP BY rank
),
doubted AS (  -- ranks whose oldest numbers are preceded by something that had not finished
  SELECT DISTINCT u.rank
  FROM facts.usage AS u
  JOIN facts.pg_of_rank AS g ON g.rank = u.rank AND g.pg_id = u.pg_id
  JOIN facts.process_group AS p ON p.gid = g.gid
  LEFT JOIN counters AS c ON c.rank = u.rank AND c.gid = g.gid AND NOT p.has_p2p
  WHERE coalesce(c.completed, CASE WHEN c.enqueued IS NOT NULL THEN 0 END) < u.seq_min - 1
     OR (c.rank IS NULL AND EXISTS (
       FROM facts.usage AS o JOIN facts.pg_of_rank AS og ON og.rank = o.rank AND og.pg_id = o.pg_id
       WHERE og.gid = g.gid AND o.rank <> u.rank AND o.open_seq_min < u.seq_min))
)
SELECT
  r.rank,
  r.entries,
  r.first_ord,
  r.any_done,
  c.rank IS NOT NULL AS has_counters,
  CASE WHEN r.has_record_ids THEN r.first_ord = 0 AND NOT r.gaps ELSE r.from_first_seq END
    OR (r.entries = 0 AND c.rank IS NULL) AS whole,
  coalesce(r.asked_only_active AND r.reports_completion, CASE
    WHEN r.any_done OR NOT r.reports_completion THEN false
    -- an empty dump with counters: nothing is open, if the job dumps in this way at all
    WHEN r.entries = 0 THEN coalesce(c.completed_some, false) AND NOT bool_or(r.any_done) OVER ()
    WHEN r.gaps THEN true
    WHEN r.rank IN (SELECT rank FROM doubted) THEN false
    ELSE (r.has_record_ids AND r.first_ord > 0) OR coalesce(c.completed_some, false)
  END) AS only_active,
  r.entries > 0 AND NOT r.any_done AND NOT r.gaps AND r.has_record_ids AND r.first_ord > 0
    AND r.rank IN (SELECT rank FROM doubted) AS short,
  -- unfinished from the oldest entry on, on every rank, without counters: all of them may wait in something older
  r.entries > 0 AND bool_and(r.entries = 0 OR (NOT r.any_done AND NOT r.gaps AND r.has_record_ids AND r.first_ord > 0
    AND c.rank IS NULL AND NOT coalesce(r.asked_only_active, false))) OVER () AS unclear,
  r.entries = 0 AND c.rank IS NULL AS says_nothing,
  coalesce(bool_or(r.one_counter AND c.rank IS NULL) OVER (), false) AS per_process_seq
FROM per_rank AS r
LEFT JOIN counted AS c ON c.rank = r.rank
