-- summary: "Where the rank that was asked for stands."
-- grain: one finding
-- reads: [facts.hang, facts.stand]
-- params:
--   rank: {type: integer, default: null, doc: "The rank under suspicion; NULL looks at all."}
-- columns:
--   severity: {doc: "Always `info`."}
--   category: {doc: "Always `where_it_stands`; no diagnosis."}
--   root: {doc: "Always false."}
--   group_name: {doc: Always NULL.}
--   seq: {doc: Always NULL.}
--   op: {doc: Always NULL.}
--   ranks: {doc: The rank.}
--   also_accused: {doc: Always empty.}
--   waits: {doc: It waits for other ranks or its device.}
--   words: {doc: Where it stands.}
--   place: {doc: Where in the program.}
--   spot_frame: {doc: The frame that tells the spot.}
--   parted_at: {doc: Always NULL.}
--   still: {doc: The same stack at every look; NULL after one look.}
--   looks: {doc: How often it was looked at.}
--   explains: {doc: Always empty.}
--   evidence: {doc: "Its frames, innermost first."}
SELECT 'info' AS severity, 'where_it_stands' AS category, false AS root, NULL::VARCHAR AS group_name, NULL::BIGINT AS seq, NULL::VARCHAR AS op,
  [s.rank] AS ranks, []::BIGINT[] AS also_accused, s.waits, s.words, s.place, s.spot_frame, NULL::VARCHAR AS parted_at, s.still, s.looks,
  []::VARCHAR[] AS explains, coalesce(s.frames, []) AS evidence
FROM facts.stand AS s
WHERE s.rank = $rank AND s.spot IS NOT NULL AND NOT EXISTS (FROM facts.hang AS h WHERE h.rank = $rank AND h.in_verdict)
