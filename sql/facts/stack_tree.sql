-- summary: "The stacks of all ranks at their last look, merged from the outermost frame on: which ranks came by here."
-- grain: one node of the prefix tree
-- reads: [facts.stand]
-- columns:
--   node: {doc: "Hash of the frames from the outermost to this one."}
--   parent: {doc: Hash of the frame outside of it; NULL at the root.}
--   depth: {doc: 1 is the outermost frame.}
--   func: {doc: Function.}
--   file: {doc: Source file.}
--   lineno: {doc: Line.}
--   ranks: {doc: "Ranks whose stack goes through it, ascending."}
WITH way AS (
  SELECT rank, list_reverse(frames)[:200] AS frames FROM facts.stand WHERE frames IS NOT NULL
),
step AS (
  SELECT rank, i AS depth, frames[i] AS frame, hash(frames[:i]) AS node, CASE WHEN i > 1 THEN hash(frames[:i - 1]) END AS parent
  FROM way, unnest(range(1, len(frames) + 1)) AS n(i)
)
SELECT node, parent, depth, any_value(frame.func) AS func, any_value(frame.file) AS file, any_value(frame.lineno) AS lineno, list_sort(list(rank)) AS ranks
FROM step GROUP BY node, parent, depth
