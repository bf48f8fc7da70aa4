-- summary: What was looked at.
-- grain: one row
-- reads: [facts.dump, facts.member, facts.process_group, facts.ring]
-- columns:
--   ranks_seen: {doc: "Ranks that left a dump, ascending."}
--   ranks_expected: {doc: "Ranks that must exist: seen, or members of a group, ascending."}
--   ranks_missing: {doc: "Expected, not seen."}
--   records: {unit: entries, doc: Flight Recorder entries.}
--   groups: {unit: groups, doc: Process groups.}
WITH expected AS (SELECT rank FROM facts.dump UNION SELECT rank FROM facts.member)
SELECT
  (SELECT coalesce(list_sort(list(rank)), []) FROM facts.dump) AS ranks_seen,
  (SELECT coalesce(list_sort(list(rank)), []) FROM expected) AS ranks_expected,
  (SELECT coalesce(list_sort(list(rank)), []) FROM expected ANTI JOIN facts.dump USING (rank)) AS ranks_missing,
  (SELECT coalesce(sum(entries), 0)::BIGINT FROM facts.ring) AS records,
  (SELECT count(*) FROM facts.process_group) AS groups
