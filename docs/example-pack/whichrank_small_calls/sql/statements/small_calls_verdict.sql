-- summary: "Whether there is a finding; it accuses nobody."
-- grain: one row
-- reads: [facts.small_call]
-- columns:
--   category: {doc: "`small_calls`; NULL when nothing was found."}
--   culprit_ranks: {doc: Always empty.}
SELECT
  CASE WHEN bool_or(small_calls >= 10 AND 2 * small_calls > calls) THEN 'small_calls' END AS category,
  []::BIGINT[] AS culprit_ranks
FROM facts.small_call
