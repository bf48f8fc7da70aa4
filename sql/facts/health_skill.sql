-- summary: "Which skills can run on what is there, and what the others lack."
-- grain: one skill
-- reads: [facts.health_table]
-- params:
--   pack: {type: text, default: '[]', doc: "The skills as JSON, filled in by the runner: skill, checks, needs, needs_any, ways (table, way)."}
-- columns:
--   nth: {doc: Its place in the manifest.}
--   skill: {doc: Its id.}
--   can_run: {doc: "What it needs is there, and it has checks."}
--   lacks: {doc: "Tables without rows: all of them are needed, or one."}
--   any_of: {doc: One of the tables is enough.}
--   ways: {doc: "How rows get into these tables, each once; where one is enough, into the first."}
WITH told AS (
  SELECT unnest(from_json($pack, '[{"nth": "BIGINT", "skill": "VARCHAR", "checks": "BIGINT", "needs": ["VARCHAR"], "needs_any": ["VARCHAR"], "ways": [{"table": "VARCHAR", "way": "VARCHAR"}]}]')) AS s
),
there AS (SELECT coalesce(list(name), []) AS names FROM facts.health_table),
lacking AS (
  SELECT s.*, list_filter(s.needs, lambda t: NOT list_contains(names, t)) AS all_of, CASE WHEN list_has_any(s.needs_any, names) THEN [] ELSE s.needs_any END AS one_of
  FROM told, there
)
SELECT
  nth, skill, len(all_of) = 0 AND len(one_of) = 0 AND checks > 0 AS can_run, all_of || one_of AS lacks, len(all_of) = 0 AND len(one_of) > 0 AS any_of,
  list_transform(list_filter(ways, lambda w, i: list_contains(all_of || one_of[:1], w.table) AND NOT list_contains(list_transform(ways[:i - 1], lambda v: v.way), w.way)), lambda w: w.way) AS ways
FROM lacking
