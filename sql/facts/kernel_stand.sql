-- summary: "What the kernel said of each rank's main thread and of the processes below it, at the last look and at all of them."
-- grain: one rank
-- reads: [cpu.utilization, facts.known_spot]
-- columns:
--   rank: {doc: Global rank.}
--   pid: {doc: Process id.}
--   host: {doc: Its host.}
--   state: {doc: "State of the main thread at the last look: R, S, D, T, t, Z."}
--   always: {doc: It was in that state at every look.}
--   wchan: {doc: Kernel function the main thread waits in.}
--   nth: {doc: "Rule of facts.known_spot for that function; NULL: none."}
--   child: {doc: "A process below it in uninterruptible sleep at every look, as `4711 (pt_data_worker)`."}
--   child_wchan: {doc: Kernel function that one waits in.}
WITH newest AS (
  SELECT rank, max_by(snapshot_id, ts) AS snapshot_id FROM {{ cpu }}.utilization WHERE rank IS NOT NULL GROUP BY rank
),
seen AS (
  SELECT u.* FROM {{ cpu }}.utilization AS u JOIN newest USING (rank, snapshot_id)
),
main AS (
  SELECT rank, any_value(pid) AS pid, any_value(host) AS host, arg_max(state, sample) AS state, count(DISTINCT state) = 1 AS always, arg_max(wchan, sample) AS wchan
  FROM seen WHERE scope = 'process' GROUP BY rank
),
child AS (
  SELECT rank, arg_min(pid || ' (' || comm || ')', pid) AS child, arg_min(wchan, pid) AS child_wchan
  FROM (SELECT rank, pid, any_value(comm) AS comm, any_value(wchan) AS wchan FROM seen WHERE scope = 'child' GROUP BY rank, pid HAVING bool_and(state = 'D'))
  GROUP BY rank
)
SELECT m.rank, m.pid, m.host, m.state, m.always, m.wchan,
  (SELECT min(k.nth) FROM facts.known_spot AS k WHERE k.seen_in = 'kernel' AND regexp_full_match(m.wchan, k.func)) AS nth,
  c.child, c.child_wchan
FROM main AS m LEFT JOIN child AS c USING (rank)
