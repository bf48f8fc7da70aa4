-- summary: "A member's sequence is shifted against its group: it skipped or added a collective."
-- grain: one finding
-- reads: [facts.finding, facts.shift]
-- rules: [L4, L5, V3, V4]
-- columns_like: facts.finding
-- columns:
--   severity: {doc: "`error`; `warning` where it is not part of the verdict."}
--   since: {doc: "Sequence number from which the first accused differs; NULL where its history shows it."}
--   shift: {doc: "Calls it is ahead of its group: 1 = it skipped one, -1 = it added one; NULL likewise."}
--   seen_by: {doc: "`call` (operation, sizes, dtypes), `site` (place in the program) or `history`."}
SELECT
  f.*,
  CASE WHEN f.root THEN 'error' ELSE 'warning' END AS severity,
  s.since,
  s.shift,
  coalesce(s.seen_by, 'history') AS seen_by
FROM facts.finding AS f
LEFT JOIN facts.shift AS s ON s.gid = f.gid AND s.rank = f.ranks[1]
WHERE f.category = 'collective_skipped'
