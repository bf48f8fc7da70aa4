-- summary: "Which skills could not look, and what they lack; which tables are old beside the newest."
-- grain: one gap
-- reads: [facts.health_skill, facts.health_table]
-- params:
--   stale_s: {type: double, default: 3600.0, doc: "A table that is older than the newest by more than this is of another moment, in seconds."}
-- columns:
--   kind: {doc: "Short fixed word; the skill has words for it."}
--   ranks: {doc: Always empty.}
--   detail: {doc: What exactly.}
--   matters: {doc: It could change the verdict.}
SELECT 'skill_lacks' AS kind, []::BIGINT[] AS ranks,
  skill || ' lacks ' || CASE WHEN any_of AND len(lacks) > 1 THEN 'one of ' ELSE '' END || array_to_string(lacks, ', ') || ', which '
    || CASE WHEN any_of OR len(lacks) = 1 THEN 'has' ELSE 'have' END || ' no rows: ' || array_to_string(ways, '; or ') AS detail,
  false AS matters
FROM (FROM facts.health_skill WHERE NOT can_run AND len(lacks) > 0 ORDER BY nth)
UNION ALL
SELECT 'table_old', [], name || ' is ' || round(behind_s / 60)::BIGINT || ' min older than the newest table', false
FROM facts.health_table
WHERE behind_s > $stale_s AND name <> 'process.kmsg'
