-- summary: "The thread that speaks for a rank at each look: the main thread, or where it waits for autograd, the thread that runs the hooks."
-- grain: one look at one rank
-- reads: [facts.known_spot, facts.thread_stand]
-- columns_like: facts.thread_stand
WITH backward AS (  -- the main thread is inside autograd
  SELECT t.rank, t.sample FROM facts.thread_stand AS t JOIN facts.known_spot AS k USING (nth) WHERE t.is_main AND k.words = 'backward pass'
)
SELECT t.*
FROM facts.thread_stand AS t
LEFT JOIN backward AS b USING (rank, sample)
WHERE t.frames IS NOT NULL
QUALIFY row_number() OVER (
  PARTITION BY t.rank, t.sample
  ORDER BY (b.rank IS NOT NULL AND NOT t.is_main AND NOT t.started_by_python) DESC, t.is_main DESC, t.thread
) = 1
