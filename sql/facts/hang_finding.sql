-- summary: "What is told to the reader about stacks: one finding per fault and spot."
-- grain: one finding
-- reads: [facts.hang, facts.stack_tree, facts.stand]
-- optional: {facts.finding: python.torch_nccl_dump, facts.kernel_event: process.kmsg}
-- columns:
--   told: {doc: The check that tells it.}
--   category: {doc: Category of the diagnosis.}
--   root: {doc: "It is part of the verdict; else a warning beside it."}
--   group_name: {doc: "The group the others wait in, as the dumps say; NULL without dumps."}
--   seq: {doc: "Sequence number there; NULL without dumps."}
--   op: {doc: "The operation the others wait in, as dumps or stacks say it; NULL where they do not."}
--   ranks: {doc: "Accused, ascending; empty where nobody is."}
--   also_accused: {doc: "Accused in other findings of the same verdict, ascending."}
--   waiting: {doc: "Ranks that wait for others or their device, ascending."}
--   together: {doc: "Ranks whose stacks were seen, ascending."}
--   spot: {doc: Where the accused stand.}
--   words: {doc: "That in words: `data loading`."}
--   place: {doc: "Where in the program the first of them stands, as `train.py:88 in backward`; NULL without a stack."}
--   spot_frame: {doc: "The frame that tells the spot; NULL where none does."}
--   parted_at: {doc: "The innermost frame that the first accused shares with most others; NULL where they share none."}
--   still: {doc: "The first accused had the same stack at every look; NULL after one look."}
--   looks: {doc: How often the first accused was looked at.}
--   others_words: {doc: Where most of those stand who are not accused.}
--   others_place: {doc: Where in the program.}
--   message: {doc: A line of the kernel log; NULL where it is not about that.}
--   explains: {doc: Always empty.}
--   evidence: {doc: "A row per rank: spot, place and the innermost frames."}
WITH fault AS (
  SELECT told, category, spot, in_verdict AS root, nth, coalesce(list_sort(list(rank) FILTER (rank IS NOT NULL)), []) AS ranks
  FROM facts.hang GROUP BY ALL
),
accused AS (SELECT DISTINCT rank FROM facts.hang WHERE rank IS NOT NULL),
others AS (
  SELECT mode(words || '|' || coalesce(place, '')) FILTER (a.rank IS NULL AND stack IS NOT NULL) AS usual,
    coalesce(list_sort(list(s.rank) FILTER (waits)), []) AS waiting, coalesce(list_sort(list(s.rank) FILTER (stack IS NOT NULL)), []) AS together,
    mode(spot_frame) FILTER (a.rank IS NULL AND waits) AS call
  FROM facts.stand AS s LEFT JOIN accused AS a USING (rank)
),
first_one AS (SELECT f.told, f.category, f.spot, f.ranks[1] AS rank FROM fault AS f WHERE len(f.ranks) > 0),
parted AS (  -- the deepest node of the tree that the accused shares with most of the others
  SELECT o.rank, arg_max(regexp_extract(t.file, '[^/]*$') || coalesce(':' || t.lineno, '') || ' in ' || t.func, t.depth) AS parted_at
  FROM (SELECT DISTINCT rank FROM first_one) AS o
  JOIN facts.stack_tree AS t ON list_contains(t.ranks, o.rank) AND len(t.ranks) * 2 > (SELECT len(together) FROM others)
  GROUP BY o.rank
),
dumps AS (
  {% if 'python.torch_nccl_dump' in has %}SELECT category, ranks, group_name, seq, op FROM facts.finding WHERE root
  {% else %}SELECT NULL::VARCHAR AS category, NULL::BIGINT[] AS ranks, NULL::VARCHAR AS group_name, NULL::BIGINT AS seq, NULL::VARCHAR AS op WHERE false{% endif %}
),
logged AS (
  {% if 'process.kmsg' in has %}
  SELECT rank, CASE WHEN kind IN ('xid', 'gpu') THEN 'device_error' WHEN kind = 'oom' THEN 'rank_died' WHEN kind = 'infiniband' THEN 'network_error' END AS category,
    coalesce(host || ': ', '') || message AS message
  FROM facts.kernel_event
  {% else %}SELECT NULL::BIGINT AS rank, NULL::VARCHAR AS category, NULL::VARCHAR AS message WHERE false{% endif %}
),
proof AS (
  SELECT list({rank: s.rank, spot: s.spot, stands: s.words, place: s.place, still: s.still, state: s.state,
    frames: list_transform(s.frames[:8], lambda f: regexp_extract(f.file, '[^/]*$') || coalesce(':' || f.lineno, '') || ' in ' || f.func)}
    ORDER BY a.rank IS NULL, s.rank)[:100] AS evidence
  FROM facts.stand AS s LEFT JOIN accused AS a USING (rank)
)
SELECT
  f.told, f.category, f.root, d.group_name, d.seq, coalesce(d.op, regexp_extract(o.call, ' in (.*)$', 1)) AS op, f.ranks,
  list_sort(list_distinct(list_filter(flatten(list(f.ranks) FILTER (f.root) OVER ()), lambda r: f.root AND NOT list_contains(f.ranks, r)))) AS also_accused,
  list_filter(o.waiting, lambda r: NOT list_contains(f.ranks, r)) AS waiting, o.together, f.spot, s.words, s.place, s.spot_frame, p.parted_at, s.still, s.looks,
  split_part(o.usual, '|', 1) AS others_words, nullif(split_part(o.usual, '|', 2), '') AS others_place, l.message,
  []::VARCHAR[] AS explains, coalesce((SELECT evidence FROM proof), []) AS evidence
FROM fault AS f
CROSS JOIN others AS o
LEFT JOIN facts.stand AS s ON s.rank = f.ranks[1]
LEFT JOIN parted AS p ON p.rank = f.ranks[1]
LEFT JOIN LATERAL (SELECT any_value(group_name) AS group_name, any_value(seq) AS seq, any_value(op) AS op FROM dumps AS d
  WHERE d.category = f.category AND (len(f.ranks) = 0 OR list_contains(d.ranks, f.ranks[1]))) AS d ON true
LEFT JOIN LATERAL (SELECT min(message) AS message FROM logged AS l WHERE l.category = f.category AND l.rank IS NOT DISTINCT FROM f.ranks[1]) AS l ON f.told = 'kernel_error'
ORDER BY f.root DESC, f.nth, len(f.ranks) DESC
