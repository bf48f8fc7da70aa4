-- summary: The snapshots of the store, which of them are whole, and which one is diagnosed.
-- grain: one snapshot of one job
-- reads: [python.torch_nccl_dump]
-- optional: {cluster.nodes: cluster.nodes}
-- params:
--   snapshot: {type: text, default: null, doc: "The snapshot to diagnose; default: the newest one that is whole."}
--   job: {type: text, default: null, doc: "The job to diagnose, where the store has several; default: the newest."}
-- columns:
--   snapshot_id: {doc: The snapshot.}
--   job_id: {doc: "Job and attempt; NULL for dump files, which do not say it."}
--   dumps: {unit: ranks, doc: How many ranks left a dump.}
--   accounted: {unit: ranks, doc: "How many left a dump, or were asked and did not answer, which is evidence as well."}
--   whole: {doc: "Every rank that any snapshot of the job knows is accounted for; files are whole as they are."}
--   chosen: {doc: It is diagnosed.}
--   newest: {doc: No other snapshot of the job is newer.}
WITH seen AS (
  SELECT DISTINCT snapshot_id, job_id, rank, true AS dumped, source = 'file' AS from_file FROM {{ python }}.torch_nccl_dump
  WHERE rank IS NOT NULL
  {% if 'cluster.nodes' in has %}
  UNION ALL
  SELECT DISTINCT snapshot_id, job_id, rank, false, false FROM {{ cluster }}.nodes
  WHERE snapshot_id IN (SELECT snapshot_id FROM {{ python }}.torch_nccl_dump)
  {% endif %}
),
every AS (
  SELECT snapshot_id, max(job_id) AS job_id, count(DISTINCT rank) FILTER (dumped) AS dumps, count(DISTINCT rank) AS accounted,
    bool_or(from_file) AS from_file
  FROM seen GROUP BY snapshot_id
),
judged AS (
  SELECT *, from_file OR accounted = max(accounted) OVER (PARTITION BY job_id) AS whole,
    snapshot_id = max(snapshot_id) OVER (PARTITION BY job_id) AS newest
  FROM every
),
job AS (  -- a struct, because files have no job
  SELECT max_by({job_id: job_id}, snapshot_id) AS j FROM judged
  WHERE CASE WHEN $snapshot IS NOT NULL THEN snapshot_id = $snapshot WHEN $job IS NOT NULL THEN job_id = $job ELSE true END
)
SELECT snapshot_id, job_id, dumps, accounted, whole,
  CASE WHEN (SELECT j FROM job) IS NULL THEN error(
    CASE WHEN $snapshot IS NOT NULL THEN 'there is no snapshot ' || $snapshot ELSE 'there is no job ' || $job END
    || ' in this store; it has ' || (SELECT string_agg(DISTINCT CASE WHEN $snapshot IS NULL THEN job_id ELSE snapshot_id END, ', ') FROM judged)
  )::BOOLEAN ELSE
  snapshot_id = coalesce($snapshot, (SELECT max(snapshot_id) FROM judged, job
                                     WHERE whole AND job_id IS NOT DISTINCT FROM j.job_id AND j IS NOT NULL)) END AS chosen,
  newest
FROM judged
