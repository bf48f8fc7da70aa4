-- summary: "Which event waits for which: through a holder that waits itself."
-- grain: one pair of events under one hypothesis
-- reads: [facts.holder]
-- rules: [V1]
-- columns:
--   ignoring: {doc: "Hypothesis, see facts.block."}
--   event: {doc: The event that is held up.}
--   next_event: {doc: The event its holder waits in.}
SELECT DISTINCT ignoring, event, next_event
FROM facts.holder
WHERE next_event IS NOT NULL AND next_event <> event
