-- summary: "Every thread at every look: its stack, and the known spot it stands in."
-- grain: one thread of one rank at one look
-- reads: [python.backtrace, facts.known_spot, facts.look]
-- params:
--   stack_depth: {type: integer, default: 20, doc: Innermost frames of each stack in which a known spot is looked for.}
-- columns:
--   rank: {doc: Global rank.}
--   sample: {doc: "Number of the look."}
--   newest: {doc: It is the last look at this rank.}
--   thread: {doc: Position of the thread.}
--   thread_name: {doc: Name of the thread; NULL where the text does not say it.}
--   pid: {doc: Process id.}
--   os_thread_id: {doc: "The kernel's number of the thread."}
--   is_main: {doc: The main thread.}
--   owns_gil: {doc: Holds the interpreter lock.}
--   idle: {doc: Not on a CPU.}
--   started_by_python: {doc: "Begun by the module threading, so no thread of autograd."}
--   frames: {doc: "Frames, innermost first."}
--   stack: {doc: "Hash of the frames, from a spot that says why outwards: how it waits there may change from look to look."}
--   nth: {doc: "Rule of facts.known_spot that holds; NULL: none does."}
--   spot_frame: {doc: "The frame it holds for, as `file.py:line in function`."}
--   user_frame: {doc: "Innermost frame outside of libraries, as `file.py:line in function`; the innermost where there is none."}
WITH frame AS (
  SELECT b.*, l.newest,
    -- installed packages, the standard library, generated code
    NOT regexp_matches(b.file, '(^|/)(site-packages|dist-packages|lib/python\d|torch|torchrun|<)|^<|^lib') AND b.frame_type = 'Python'
      AND NOT regexp_matches(b.file, '^(threading|queue|multiprocessing|concurrent|selectors|socket|ssl|subprocess|runpy|contextlib|logging|importlib|asyncio)(\.py|/)') AS of_user,
    regexp_extract(b.file, '[^/]*$') || coalesce(':' || b.lineno, '') || ' in ' || b.func AS shown
  FROM {{ python }}.backtrace AS b JOIN facts.look AS l USING (rank, snapshot_id, sample)
),
distinct_frame AS (SELECT DISTINCT func, file FROM frame WHERE func IS NOT NULL),
known AS (  -- the first rule that holds for a frame
  SELECT d.func, d.file, min(k.nth) AS nth, bool_or(k.strong) AS strong
  FROM distinct_frame AS d
  JOIN facts.known_spot AS k ON k.seen_in = 'frame' AND regexp_full_match(d.func, k.func) AND regexp_matches(d.file, k.file)
  GROUP BY ALL
),
strong_at AS (
  SELECT f.rank, f.sample, f.thread, min(f.depth) AS depth FROM frame AS f JOIN known AS k USING (func, file)
  WHERE k.strong AND f.depth < $stack_depth GROUP BY ALL
)
SELECT
  f.rank, f.sample, f.newest, f.thread, any_value(f.thread_name) AS thread_name, any_value(f.pid) AS pid, any_value(f.os_thread_id) AS os_thread_id,
  bool_or(f.is_main) AS is_main, bool_or(f.owns_gil) AS owns_gil, NOT bool_or(f.active) AS idle,
  coalesce(arg_max(f.func, f.depth) IN ('_bootstrap', '_bootstrap_inner', 'run', 'clone', 'start_thread'), false) AS started_by_python,
  list({func: f.func, file: f.file, lineno: f.lineno} ORDER BY f.depth) FILTER (f.func IS NOT NULL) AS frames,
  hash(list({func: f.func, file: f.file, lineno: f.lineno} ORDER BY f.depth) FILTER (f.func IS NOT NULL AND f.depth >= coalesce(s.depth, 0))) AS stack,
  coalesce(arg_min(k.nth, f.depth) FILTER (k.strong AND f.depth < $stack_depth), arg_min(k.nth, f.depth) FILTER (f.depth < $stack_depth)) AS nth,
  coalesce(arg_min(f.shown, f.depth) FILTER (k.strong AND f.depth < $stack_depth),
    arg_min(f.shown, f.depth) FILTER (k.nth IS NOT NULL AND f.depth < $stack_depth)) AS spot_frame,
  coalesce(arg_min(f.shown, f.depth) FILTER (f.of_user), arg_min(f.shown, f.depth)) AS user_frame
FROM frame AS f
LEFT JOIN known AS k USING (func, file)
LEFT JOIN strong_at AS s USING (rank, sample, thread)
GROUP BY f.rank, f.sample, f.newest, f.thread
