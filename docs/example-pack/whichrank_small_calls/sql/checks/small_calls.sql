-- summary: "Most of at least ten calls of a group are small."
-- grain: one process group
-- reads: [facts.small_call]
-- columns:
--   severity: {doc: Always `warning`.}
--   category: {doc: Always `small_calls`.}
--   group_name: {doc: What people call the group.}
--   seq: {doc: Always NULL.}
--   op: {doc: The operation that is small most often.}
--   ranks: {doc: Always empty; nobody is to blame.}
--   root: {doc: Always true.}
--   explains: {doc: Always empty.}
--   evidence: {doc: The counts.}
--   calls: {unit: calls, doc: Collective calls of one rank.}
--   small_calls: {unit: calls, doc: Those of fewer elements.}
--   small_numel: {unit: elements, doc: The limit.}
SELECT
  'warning' AS severity,
  'small_calls' AS category,
  group_name,
  NULL::BIGINT AS seq,
  op,
  []::BIGINT[] AS ranks,
  true AS root,
  []::VARCHAR[] AS explains,
  [{'group_name': group_name, 'calls': calls, 'small_calls': small_calls}] AS evidence,
  calls,
  small_calls,
  small_numel
FROM facts.small_call
WHERE small_calls >= 10 AND 2 * small_calls > calls
ORDER BY small_calls DESC, group_name
