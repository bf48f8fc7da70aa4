-- summary: "The verdict of one look: that of the worst finding."
-- grain: one row
-- reads: [facts.health_finding, facts.health_skill, facts.health_table]
-- columns:
--   category: {doc: "Category of the diagnosis; NULL when nothing was found."}
--   culprit_ranks: {doc: "Ranks that the worst finding accuses, ascending; empty where it accuses nobody."}
--   tables: {unit: tables, doc: How many tables have rows.}
--   skills_run: {unit: skills, doc: How many skills could look at them.}
--   skills_lacking: {unit: skills, doc: How many could not.}
SELECT
  arg_min(category, nth) FILTER (root) AS category,
  coalesce(arg_min(list_sort(ranks), nth) FILTER (root), []) AS culprit_ranks,
  (SELECT count(*) FROM facts.health_table) AS tables,
  (SELECT count(*) FILTER (can_run) FROM facts.health_skill) AS skills_run,
  (SELECT count(*) FILTER (NOT can_run) FROM facts.health_skill) AS skills_lacking
FROM facts.health_finding
