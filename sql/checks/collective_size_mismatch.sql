-- summary: One operation, sizes it does not allow.
-- grain: one finding
-- reads: [facts.finding, facts.mismatch]
-- rules: [L1, L3, L8]
-- columns_like: facts.finding
-- columns:
--   severity: {doc: "`error`; `warning` where it is not part of the verdict."}
--   own: {doc: What the first accused passed (sizes); NULL where all are wrong alike.}
--   others: {doc: What most others passed; NULL without a majority.}
--   finished: {doc: The operation is over all the same.}
SELECT
  f.*,
  CASE WHEN f.root THEN 'error' ELSE 'warning' END AS severity,
  coalesce(f.called, m.own) AS own,
  coalesce(f.usual, m.others) AS others,
  coalesce(m.finished, false) AS finished
FROM facts.finding AS f
LEFT JOIN facts.mismatch AS m ON m.gid = f.gid AND m.seq = f.seq AND m.rank = f.ranks[1]
WHERE f.category = 'collective_size_mismatch'
