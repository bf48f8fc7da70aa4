-- summary: Something hangs, and the evidence does not tell which of several causes it is.
-- grain: one finding
-- reads: [facts.finding]
-- rules: [P3, P8, P10, V5, V7]
-- columns_like: facts.finding
-- columns:
--   severity: {doc: "`error`; `warning` where it is not part of the verdict or stays open."}
SELECT f.*, 'warning' AS severity
FROM facts.finding AS f
WHERE f.category = 'insufficient_evidence'
