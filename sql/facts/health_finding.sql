-- summary: "What one look finds: the worst of the other skills, waits that are old, ranks that are missing, settings that are mistakes."
-- grain: one finding
-- reads: [facts.health_outcome, facts.health_rank, facts.health_setting]
-- optional: {facts.scene: python.torch_nccl_dump}
-- params:
--   sample_limit: {type: integer, default: 5, doc: Rows of evidence of each finding.}
--   worst: {type: integer, default: 3, doc: Findings of other skills that are told.}
--   pending_s: {type: double, default: 60.0, doc: "A collective that has waited longer than this is worth a word, in seconds."}
-- columns:
--   told: {doc: The check that tells it.}
--   nth: {doc: Its place in the verdict.}
--   category: {doc: Category of the diagnosis.}
--   severity: {doc: "`error`, `warning` or `info`."}
--   root: {doc: "It is part of the verdict; false for what another finding says already."}
--   group_name: {doc: "What people call the group; NULL where it is about none."}
--   seq: {doc: "Sequence number; NULL where there is none."}
--   op: {doc: "The operation; NULL where there is none."}
--   ranks: {doc: "Accused, ascending; empty where nobody is."}
--   about: {doc: "Ranks it is about, accused or not, ascending."}
--   skill_id: {doc: "The skill that looks closer; NULL where none does."}
--   headline: {doc: "What that skill said; NULL where it was not asked."}
--   kind: {doc: "Which setting; NULL where it is not about one."}
--   amount: {doc: "Entries of a recorder, or ranks that are expected; NULL elsewhere."}
--   waited_s: {unit: s, doc: "How long it has waited; NULL elsewhere."}
--   use_global: {doc: "`false` where only this host was looked at, which the next step then does too; empty elsewhere."}
--   explains: {doc: Always empty.}
--   evidence: {doc: "What it rests on; the statements of the skill that looks closer prove it."}
WITH worst AS (FROM facts.health_outcome WHERE place <= $worst),
missing AS (
  SELECT coalesce(list_sort(list(rank) FILTER (NOT seen)), []) AS about, count(*) AS expected FROM facts.health_rank HAVING bool_or(NOT seen) AND bool_or(seen)
),
setting AS (
  SELECT kind, list_sort(list(rank)) AS about, max(entries) AS entries, bool_or(was_set) AS was_set FROM facts.health_setting GROUP BY kind
),
pending AS (
  {% if 'python.torch_nccl_dump' in has %}
  SELECT group_name, seq, op, waiting, waited_s FROM facts.scene WHERE waited_s > $pending_s
  {% else %}
  SELECT NULL::VARCHAR AS group_name, NULL::BIGINT AS seq, NULL::VARCHAR AS op, NULL::BIGINT[] AS waiting, NULL::DOUBLE AS waited_s WHERE false
  {% endif %}
),
found AS (
  SELECT
    'worst_finding' AS told, place AS nth, category, severity, true AS root, group_name, seq, op, ranks, ranks AS about, skill AS skill_id, headline,
    NULL::VARCHAR AS kind, NULL::BIGINT AS amount, NULL::DOUBLE AS waited_s, []::VARCHAR[] AS proof
  FROM worst
  UNION ALL
  SELECT
    'pending_collective', 100, 'pending_collective', 'warning', NOT EXISTS (FROM worst WHERE severity = 'error'), group_name, seq, op, [], waiting,
    'watchdog_timeout', NULL, NULL, NULL, waited_s, list_transform(waiting, lambda r: 'rank ' || r)
  FROM pending
  UNION ALL
  SELECT 'ranks_missing', 200, 'ranks_missing', 'warning', true, NULL, NULL, NULL, [], about, NULL, NULL, NULL, expected, NULL, list_transform(about, lambda r: 'rank ' || r)
  FROM missing
  UNION ALL
  SELECT
    'recorder_settings', 300, 'recorder_settings', 'warning', true, NULL, NULL, NULL, [], about, NULL, NULL, kind || CASE WHEN was_set THEN '' ELSE '_seen' END, entries, NULL,
    list_transform(about, lambda r: 'rank ' || r)
  FROM setting
)
SELECT
  told, nth, category, severity, root, group_name, seq, op, ranks, about, skill_id, headline, kind, amount, waited_s,
  '{{ '' if use_global else 'false' }}' AS use_global, []::VARCHAR[] AS explains, proof[:$sample_limit] AS evidence
FROM found
ORDER BY nth, waited_s DESC, seq
