-- summary: "The looks at each rank that are compared: those of its newest collection, or of files that belong together."
-- grain: one look at one rank
-- reads: [python.backtrace]
-- optional: {facts.dump: python.torch_nccl_dump, facts.member: python.torch_nccl_dump, facts.snapshot: python.torch_nccl_dump}
-- columns:
--   rank: {doc: Global rank.}
--   snapshot_id: {doc: The collection.}
--   sample: {doc: "Number of the look in it."}
--   taken_ns: {unit: ns since epoch, doc: "When, by the clock of its host."}
--   newest: {doc: It is the last look at this rank.}
WITH taken AS (
  SELECT DISTINCT rank, snapshot_id, sample, taken_ns, source, job_id FROM {{ python }}.backtrace WHERE rank IS NOT NULL
),
job AS (SELECT max_by({job_id: job_id}, taken_ns) AS j, max(taken_ns) AS newest_ns FROM taken),
dumps AS (  -- which job they are of, and when they were taken, where they say it
  {% if 'python.torch_nccl_dump' in has %}
  SELECT (SELECT any_value(job_id) FROM facts.snapshot WHERE chosen AND job_id NOT LIKE 'debug-server %') AS job_id, (SELECT max(snapshot_ns) FROM facts.dump) AS dumped_ns
  {% else %}SELECT NULL::VARCHAR AS job_id, NULL::BIGINT AS dumped_ns{% endif %}
),
ours AS (  -- an old collection says nothing of today; the times of files are those of their copies
  SELECT t.* FROM taken AS t, job, dumps AS d
  WHERE t.job_id IS NOT DISTINCT FROM j.job_id AND coalesce(t.job_id = d.job_id, true)
    AND (t.source = 'file' OR t.taken_ns >= greatest(newest_ns, d.dumped_ns) - 900_000_000_000)
    {% if 'python.torch_nccl_dump' in has %}AND coalesce(t.rank <= (SELECT max(rank) FROM facts.member), true)  -- of another job{% endif %}
),
chosen AS (  -- a log may hold looks from long before the hang: of files the last two are compared
  SELECT * FROM ours
  QUALIFY snapshot_id = max_by(snapshot_id, taken_ns) OVER (PARTITION BY rank)
    AND taken_ns >= max(taken_ns) OVER (PARTITION BY rank) - 600_000_000_000
    AND (source = 'process' OR dense_rank() OVER (PARTITION BY rank, snapshot_id ORDER BY sample DESC) <= 2)
)
SELECT rank, snapshot_id, sample, taken_ns, sample = max(sample) OVER (PARTITION BY rank) AS newest FROM chosen
