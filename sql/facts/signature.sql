-- summary: What each distinct call means, decoded once per signature instead of once per entry.
-- grain: one distinct (operation, sizes, dtypes)
-- reads: [python.torch_nccl_signature]
-- rules: [P6, L1, L2, L6]
-- columns:
--   signature_id: {doc: Hash of the content.}
--   op: {doc: Operation without the library's prefix.}
--   library: {doc: "Library prefix (`nccl`, `gloo`); NULL where the name has none."}
--   reports_completion: {doc: "The library sets state completed; the others (gloo) only retire."}
--   p2p_kind: {doc: "`send` or `recv`; NULL for collectives."}
--   p2p_src: {doc: Group-local sender; NULL for collectives and where the name does not say.}
--   p2p_dst: {doc: Group-local receiver; NULL likewise.}
--   closes_batch: {doc: The closing entry of a coalesced call; it has no sizes of its own.}
--   synchronising: {doc: Nobody finishes before everybody has entered.}
--   one_way: {doc: "Rooted operation: some members may finish before others enter."}
--   shape_key: {doc: "Sizes that must agree between members, as text; NULL where none must."}
--   numel_key: {doc: The same as numbers of elements; what the library itself requires.}
--   dtype_key: {doc: "dtypes that must agree between members, as text; NULL where unknown."}
--   numel_in: {unit: elements, doc: Sum over all input tensors.}
--   numel_out: {unit: elements, doc: Sum over all output tensors.}
--   numel_factor: {doc: "Group sizes by which outputs exceed inputs: 1 all_gather, -1 reduce_scatter, NULL no rule."}
--   exchanges_totals: {doc: "all_to_all: only the totals over the group must agree."}
--   compare_id: {doc: "Hash of operation, shape_key and dtype_key: equal for calls that fit together."}
WITH parsed AS (
  SELECT
    signature_id,
    regexp_extract(profiling_name, '([^:]*)$', 1) AS op,
    nullif(regexp_extract(profiling_name, '^(.*):[^:]*$', 1), '') AS library,
    coalesce(input_sizes, []) AS ins,
    coalesce(output_sizes, []) AS outs,
    input_dtypes,
    output_dtypes
  FROM {{ python }}.torch_nccl_signature
),
measured AS (
  SELECT
    *,
    nullif(regexp_extract(op, '^(send|recv)\b', 1), '') AS p2p_kind,
    list_transform(ins, lambda s: coalesce(list_product(s)::BIGINT, 1)) AS in_numels,
    list_transform(outs, lambda s: coalesce(list_product(s)::BIGINT, 1)) AS out_numels,
    regexp_matches(op, '^_?(broadcast|reduce|gather|scatter)(_oop|_single|_coalesced)?$') AS one_way,
    regexp_matches(lower(op), 'all_?to_?all') AS exchanges_totals
  FROM parsed
),
keyed AS (
  SELECT
    signature_id,
    op,
    library,
    library IS NULL OR regexp_matches(lower(library), 'ccl|cncl') AS reports_completion,
    p2p_kind,
    try_cast(coalesce(nullif(regexp_extract(op, '^send (\d+)->', 1), ''), regexp_extract(op, '^recv \d+<-(\d+)', 1)) AS BIGINT) AS p2p_src,
    try_cast(coalesce(nullif(regexp_extract(op, '^send \d+->(\d+)', 1), ''), regexp_extract(op, '^recv (\d+)<-', 1)) AS BIGINT) AS p2p_dst,
    regexp_matches(op, '(^|_)coalesced$') AND len(ins) = 0 AND len(outs) = 0 AS closes_batch,
    NOT one_way AND regexp_matches(lower(op), 'all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier') AS synchronising,
    one_way,
    CASE
      WHEN exchanges_totals OR p2p_kind IS NOT NULL THEN NULL
      WHEN regexp_matches(op, '^_?gather') THEN ins::VARCHAR
      WHEN regexp_matches(op, '^_?scatter') THEN outs::VARCHAR
      WHEN one_way THEN list_sum(in_numels)::BIGINT::VARCHAR
      ELSE ins::VARCHAR || ' -> ' || outs::VARCHAR
    END AS shape_key,
    CASE
      WHEN exchanges_totals OR p2p_kind IS NOT NULL THEN NULL
      WHEN regexp_matches(op, '^_?gather') THEN list_sum(in_numels)::BIGINT::VARCHAR
      WHEN regexp_matches(op, '^_?scatter') THEN list_sum(out_numels)::BIGINT::VARCHAR
      WHEN one_way THEN list_sum(in_numels)::BIGINT::VARCHAR
      ELSE list_sum(in_numels)::BIGINT::VARCHAR || ' -> ' || list_sum(out_numels)::BIGINT::VARCHAR
    END AS numel_key,
    CASE
      WHEN p2p_kind IS NOT NULL OR input_dtypes IS NULL OR output_dtypes IS NULL THEN NULL
      WHEN regexp_matches(op, '^_?(gather|scatter)') OR exchanges_totals
        THEN list_sort(list_distinct(list_concat(input_dtypes, output_dtypes)))::VARCHAR
      ELSE list_distinct(input_dtypes)::VARCHAR || ' -> ' || list_distinct(output_dtypes)::VARCHAR
    END AS dtype_key,
    list_sum(in_numels)::BIGINT AS numel_in,
    list_sum(out_numels)::BIGINT AS numel_out,
    CASE
      WHEN len(ins) = 0 OR len(outs) = 0 THEN NULL
      WHEN regexp_matches(lower(op), 'all_?gather') THEN 1
      WHEN regexp_matches(lower(op), 'reduce_?scatter') THEN -1
    END AS numel_factor,
    exchanges_totals
  FROM measured
)
SELECT *, (hash(op, shape_key, dtype_key) >> 1)::BIGINT AS compare_id FROM keyed
