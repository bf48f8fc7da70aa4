-- summary: "What the other skills found: the findings of their verdicts, the worst first."
-- grain: one finding of another skill
-- params:
--   outcomes: {type: text, default: '[]', doc: "Findings as JSON, filled in by the runner: skill, nth, severity, category, group, seq, op, ranks, headline."}
-- columns:
--   place: {doc: "1 is the worst; errors before warnings, then in the order of the skills and of their verdicts."}
--   skill: {doc: Who found it.}
--   severity: {doc: "`error`, `warning` or `info`."}
--   category: {doc: Its category.}
--   group_name: {doc: "The group; NULL where it is about none."}
--   seq: {doc: "Sequence number; NULL where there is none."}
--   op: {doc: "The operation; NULL where there is none."}
--   ranks: {doc: "Accused, ascending."}
--   headline: {doc: What it said.}
WITH told AS (
  SELECT unnest(from_json($outcomes, '[{"nth": "BIGINT", "skill": "VARCHAR", "severity": "VARCHAR", "category": "VARCHAR", "group": "VARCHAR", "seq": "BIGINT", "op": "VARCHAR", "ranks": ["BIGINT"], "headline": "VARCHAR"}]')) AS f
)
SELECT
  row_number() OVER (ORDER BY CASE f.severity WHEN 'error' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END, f.nth) AS place,
  f.skill, f.severity, f.category, f.group AS group_name, f.seq, f.op, f.ranks, f.headline
FROM told
