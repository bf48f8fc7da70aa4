-- summary: The dumps a diagnosis looks at, which are those of one snapshot of one job.
-- grain: one rank that was seen
-- reads: [python.torch_nccl_dump, facts.snapshot]
-- columns:
--   rank: {doc: Global rank.}
--   snapshot_id: {doc: The snapshot all facts are about.}
--   from_process: {doc: A running process was asked; false for a dump left behind.}
--   at_exit: {doc: A process left it when an exception or a signal ended it.}
--   fr_version: {doc: Version string of the dump.}
--   only_active: {doc: True where only unfinished entries were asked for; NULL where the dump does not say.}
--   snapshot_ns: {unit: ns since epoch, doc: When the dump was taken; NULL for files.}
--   path: {doc: File it came from.}
SELECT rank, snapshot_id, source = 'process' AS from_process, source = 'exit' AS at_exit, fr_version, only_active, snapshot_ns, path
FROM {{ python }}.torch_nccl_dump
WHERE snapshot_id = (SELECT snapshot_id FROM facts.snapshot WHERE chosen) AND rank IS NOT NULL
