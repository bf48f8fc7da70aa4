-- summary: Every event that an event waits for, directly or through others, itself included.
-- grain: one pair of events under one hypothesis
-- reads: [facts.arrow, facts.block]
-- rules: [V1, V2]
-- columns:
--   ignoring: {doc: "Hypothesis, see facts.block."}
--   event: {doc: The event one starts from.}
--   reached: {doc: An event it waits for.}
WITH RECURSIVE reach AS (
  SELECT DISTINCT ignoring, event, event AS reached FROM facts.block
  UNION
  SELECT r.ignoring, r.event, a.next_event
  FROM reach AS r JOIN facts.arrow AS a ON a.ignoring = r.ignoring AND a.event = r.reached
)
FROM reach
