-- summary: "What was collected: ranks, tables with their age, and which skills can run on them."
-- grain: one row
-- reads: [facts.health_rank, facts.health_skill, facts.health_table]
-- columns:
--   ranks_seen: {doc: "Ranks that left something, ascending."}
--   ranks_expected: {doc: "Ranks that must exist, ascending."}
--   ranks_missing: {doc: "Expected, not seen."}
--   records: {unit: rows, doc: Rows of all tables.}
--   groups: {unit: groups, doc: Always 0.}
--   tables: {doc: "The tables that have rows: name, rows, ranks, newest (UTC), behind_s."}
--   skills: {doc: "All skills: skill, can_run, lacks."}
SELECT
  (SELECT coalesce(list_sort(list(rank) FILTER (seen)), []) FROM facts.health_rank) AS ranks_seen,
  (SELECT coalesce(list_sort(list(rank)), []) FROM facts.health_rank) AS ranks_expected,
  (SELECT coalesce(list_sort(list(rank) FILTER (NOT seen)), []) FROM facts.health_rank) AS ranks_missing,
  (SELECT coalesce(sum(row_count), 0)::BIGINT FROM facts.health_table) AS records,
  0 AS groups,
  (SELECT coalesce(list({name: name, rows: row_count, ranks: len(ranks), newest: strftime(make_timestamp_ns(newest_ns), '%Y-%m-%d %H:%M:%S'), behind_s: behind_s} ORDER BY name), [])
    FROM facts.health_table) AS tables,
  (SELECT coalesce(list({skill: skill, can_run: can_run, lacks: lacks} ORDER BY nth), []) FROM facts.health_skill) AS skills
