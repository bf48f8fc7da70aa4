-- summary: "Ranks whose calls differ as the logs say: in what they waited for, or in a check before the collective."
-- grain: one rank that differs
-- reads: [facts.log_call, facts.log_line, facts.log_wait]
-- rules: [L1, L3]
-- columns:
--   category: {doc: Category of the diagnosis.}
--   grp: {doc: The group.}
--   label: {doc: What people call it.}
--   seq: {doc: Sequence number.}
--   rank: {doc: Rank that differs.}
--   own: {doc: What it called.}
--   others: {doc: "What most others called; NULL without a majority."}
--   path: {doc: File that says so.}
--   line: {doc: Line that says so.}
--   text: {doc: What it says.}
WITH print AS (
  FROM facts.log_line WHERE kind IN ('fingerprint', 'fingerprint_old')
),
call AS (  -- what each rank called at one place; a fingerprint counts as one place, for it was one check
  SELECT 'wait' AS how, grp, label, seq, rank, op, CASE WHEN regexp_matches(op, '^_|ALLREDUCE|BROADCAST|^REDUCE$|BARRIER') THEN numel_in || ' to ' || numel_out END AS size,
    NULL AS dtype, seq AS number, path, line, text
  FROM facts.log_wait WHERE seq IS NOT NULL AND op IS NOT NULL
  UNION ALL
  SELECT 'print', coalesce(grp, '0'), coalesce(label, 'default_pg'), NULL, group_rank, op, shape, dtype, seq, path, line, text FROM print
  UNION ALL
  SELECT 'print', coalesce(grp, '0'), coalesce(label, 'default_pg'), NULL, peer_rank, other_op, other_shape, other_dtype, other_seq, path, line, text
  FROM print WHERE peer_rank IS NOT NULL AND other_op IS NOT NULL
  UNION ALL  -- a reporter compares with 0, 1, 2 … and stops at the first that differs: the ranks before it agree
  SELECT 'print', coalesce(grp, '0'), coalesce(label, 'default_pg'), NULL, unnest(range(0, peer_rank)), op, shape, dtype, seq, path, line, text
  FROM print WHERE peer_rank IS NOT NULL AND peer_rank < 100000
  UNION ALL
  SELECT 'issued', '0', 'default_pg', count, rank, op, numel || ' elements', dtype, NULL, path, line, text FROM facts.log_call
),
once AS (
  SELECT how, grp, any_value(label) AS label, seq, rank, arg_min(op, line) AS op, arg_min(size, line) AS size, arg_min(dtype, line) AS dtype,
    arg_min(number, line) AS number, arg_min(path, line) AS path, min(line) AS line, arg_min(text, line) AS text
  FROM call WHERE rank IS NOT NULL GROUP BY how, grp, seq, rank
),
compared AS (
  SELECT how, grp, label, seq, rank, path, line, text, unnest([
    struct_pack(category := 'collective_skipped', own := CASE WHEN how = 'print' THEN '#' || number END),
    struct_pack(category := 'collective_type_mismatch', own := op),
    struct_pack(category := 'collective_size_mismatch', own := CASE WHEN size IS NOT NULL THEN op || ' of ' || size END),
    struct_pack(category := 'collective_dtype_mismatch', own := dtype)], recursive := true)
  FROM once
),
counted AS (SELECT how, grp, seq, category, own, count(*) AS n FROM compared WHERE own IS NOT NULL GROUP BY ALL),
voted AS (
  SELECT how, grp, seq, category, count(*) AS kinds, sum(n) AS total, max(n) AS most, arg_max(own, n) AS usual
  FROM counted GROUP BY ALL HAVING count(*) > 1
),
odd AS (
  SELECT c.category, c.grp, c.label, c.seq, c.rank, c.own, CASE WHEN v.most * 2 > v.total THEN v.usual END AS others, c.path, c.line, c.text,
    list_position(['collective_skipped', 'collective_type_mismatch', 'collective_size_mismatch', 'collective_dtype_mismatch'], c.category) AS nth, c.how
  FROM compared AS c JOIN voted AS v ON v.how = c.how AND v.grp = c.grp AND v.seq IS NOT DISTINCT FROM c.seq AND v.category = c.category
  WHERE c.own IS NOT NULL AND (v.most * 2 <= v.total OR c.own <> v.usual)
)
SELECT category, grp, label, seq, rank, own, others, path, line, text
FROM odd
QUALIFY nth = min(nth) OVER (PARTITION BY how, grp, seq) AND (how <> 'issued' OR seq = min(seq) OVER (PARTITION BY how))
