-- summary: "Where each rank stands: its spot in words, its place in the program, whether it moved between the looks."
-- grain: one rank that was looked at, or asked in vain
-- reads: [facts.known_spot, facts.rank_thread, facts.thread_stand]
-- optional: {facts.kernel_stand: cpu.utilization, cluster.nodes: cluster.nodes}
-- columns:
--   rank: {doc: Global rank.}
--   spot: {doc: "See facts.known_spot; also `user`, `stopped`, `dead`, `silent`; NULL where nothing is known."}
--   waits: {doc: "It waits for other ranks or its device; NULL where nothing is known."}
--   named: {doc: "The spot says why it is there, rather than how it waits."}
--   words: {doc: "The spot in words: `data loading`."}
--   place: {doc: "Where in the program, as `train.py:88 in backward`."}
--   spot_frame: {doc: "The frame that tells the spot, as `dataloader.py:1131 in _try_get_data`."}
--   stack: {doc: Hash of the stack at the last look.}
--   frames: {doc: "Its frames, innermost first."}
--   looks: {doc: How often it was looked at.}
--   still: {doc: "The same stack at every look; NULL after one look."}
--   pid: {doc: Process id; NULL where the text does not say it.}
--   host: {doc: "Its host; NULL where nothing says it."}
--   state: {doc: "State of the process, as the kernel names it; NULL where nobody asked."}
WITH at_last AS (SELECT * FROM facts.rank_thread WHERE newest),
moved AS (SELECT rank, count(*) AS looks, count(DISTINCT stack) = 1 AS still FROM facts.rank_thread GROUP BY rank),
gil AS (  -- whoever holds the interpreter lock at every look, asleep, without moving
  SELECT rank, thread, any_value(thread_name) AS thread_name, any_value(user_frame) AS held_at, bool_or(is_main) AS by_main
  FROM facts.thread_stand
  GROUP BY rank, thread HAVING bool_and(coalesce(owns_gil AND idle, false)) AND count(DISTINCT stack) = 1
),
kernel AS (
  {% if 'cpu.utilization' in has %}FROM facts.kernel_stand
  {% else %}SELECT NULL::BIGINT AS rank, NULL::BIGINT AS pid, NULL::VARCHAR AS host, NULL::VARCHAR AS state, false AS always, NULL::VARCHAR AS wchan, NULL::INTEGER AS nth, NULL::VARCHAR AS child, NULL::VARCHAR AS child_wchan WHERE false{% endif %}
),
node AS (  -- who was asked together with the stacks, and what came of it
  {% if 'cluster.nodes' in has %}
  SELECT rank, max_by(state, snapshot_id) AS state, max_by(host, snapshot_id) AS host, max_by(pid, snapshot_id) AS pid FROM {{ cluster }}.nodes
  WHERE snapshot_id LIKE '%-stacks-%' AND snapshot_id = (SELECT max(snapshot_id) FROM {{ cluster }}.nodes AS n WHERE n.snapshot_id LIKE '%-stacks-%' AND n.rank = nodes.rank)
  GROUP BY rank
  {% else %}SELECT NULL::BIGINT AS rank, NULL::VARCHAR AS state, NULL::VARCHAR AS host, NULL::BIGINT AS pid WHERE false{% endif %}
),
known AS (
  SELECT rank, t.nth, k.spot, coalesce(k.strong, false) AS strong, k.waits, k.words, t.user_frame, t.spot_frame, t.stack, t.frames, m.looks, m.still,
    coalesce(t.pid, e.pid, n.pid) AS pid, coalesce(e.host, n.host) AS host, e.state, coalesce(e.always, false) AS always, e.wchan, e.child, e.child_wchan,
    x.spot AS kernel_spot, x.words AS kernel_words, n.state AS node_state, g.rank IS NOT NULL AS holds, g.by_main, g.held_at, g.thread_name
  FROM at_last AS t
  FULL JOIN node AS n USING (rank)
  FULL JOIN kernel AS e USING (rank)
  LEFT JOIN moved AS m USING (rank)
  LEFT JOIN gil AS g USING (rank)
  LEFT JOIN facts.known_spot AS k ON k.nth = t.nth
  LEFT JOIN facts.known_spot AS x ON x.nth = e.nth
),
told AS (
  SELECT *, CASE
      WHEN node_state = 'stopped' OR (state IN ('T', 't') AND always) THEN 'stopped'
      WHEN node_state = 'dead' OR (state = 'Z' AND always) THEN 'dead'
      WHEN stack IS NULL AND node_state = 'silent' THEN 'silent'
      WHEN stack IS NULL THEN NULL
      WHEN holds AND NOT by_main AND looks > 1 THEN 'gil'  -- the main thread may long want to go on
      WHEN strong THEN spot
      WHEN holds THEN 'gil'
      WHEN state = 'D' AND always THEN 'io'
      ELSE coalesce(spot, kernel_spot, 'user')
    END AS position
  FROM known
)
SELECT rank, position AS spot,
  CASE WHEN position IS NULL OR position = 'silent' THEN NULL ELSE position = spot AND strong AND waits END AS waits,
  position IN ('stopped', 'dead', 'silent', 'gil') OR (position = spot AND strong) OR (state = 'D' AND always) AS named,
  CASE position
    WHEN 'stopped' THEN 'stopped by a signal (SIGSTOP) or a debugger'
    WHEN 'dead' THEN 'no process any more'
    WHEN 'silent' THEN 'no answer to py-spy'
    WHEN 'gil' THEN CASE WHEN by_main THEN 'a call that keeps the interpreter lock (GIL) and sleeps'
      ELSE 'a wait for the interpreter lock (GIL), which ' || coalesce('thread ' || thread_name, 'another thread') || ' keeps asleep at ' || held_at END
    WHEN 'user' THEN 'user code'
    ELSE CASE WHEN position = 'collective' AND words = 'collective' THEN 'collective ' || regexp_extract(spot_frame, ' in (.*)$', 1)
      WHEN position = spot THEN words WHEN position = kernel_spot THEN kernel_words ELSE 'file I/O' END
  END
  || CASE WHEN state = 'D' AND always AND position NOT IN ('stopped', 'dead') THEN ', in uninterruptible sleep' || coalesce(' (' || wchan || ')', '') ELSE '' END
  || CASE WHEN holds AND by_main AND position <> 'gil' AND NOT coalesce(waits, false) THEN ', with the interpreter lock (GIL) held' ELSE '' END
  || CASE WHEN child IS NOT NULL AND NOT coalesce(waits, false) THEN ', its process ' || child || ' in uninterruptible sleep' || coalesce(' (' || child_wchan || ')', '') ELSE '' END AS words,
  user_frame AS place, spot_frame, stack, frames, coalesce(looks, 0) AS looks, CASE WHEN looks > 1 THEN still END AS still, pid, host,
  coalesce(state, CASE node_state WHEN 'stopped' THEN 'T' END) AS state
FROM told
WHERE rank IS NOT NULL
