-- summary: What each rank really has open, once everything that must be over by now is left out.
-- grain: one open operation of one rank
-- reads: [facts.dump, facts.op, facts.peak, facts.position, facts.process_group, facts.ring]
-- rules: [P3, P4, P6, P7, V6, V10]
-- params:
--   live_limit_s: {type: double, default: 10.0, doc: "In a running process an operation younger than this is no hang."}
-- columns:
--   rank: {doc: Global rank.}
--   ord: {doc: "Position within this rank; -1 for an operation only the counters know."}
--   gid: {doc: The group.}
--   seq: {doc: Sequence number; NULL for p2p.}
--   is_p2p: {doc: Sends and receives.}
--   one_way: {doc: Rooted operation.}
--   unnoticed: {doc: Peers finished it; this rank has not seen that.}
--   young: {doc: "A running process entered it so lately that waiting in it is no hang."}
--   may_ignore: {doc: "The only such operation of this rank, whose host went on behind it."}
--   next_entered: {doc: The rank has entered the next call of the group that others wait in.}
--   lags: {doc: "Others have entered more in this group than this rank."}
WITH settled AS (  -- p2p of the same kind that finished later: the older one is over
  SELECT rank, gid, signature_id, call_id, max(ord) AS ord FROM facts.op WHERE is_p2p AND done GROUP BY ALL
),
longest AS (  -- how far apart a running job's collectives lie: waiting less than that is its normal step
  SELECT greatest($live_limit_s * 1e9, max(gap)) AS limit_ns
  FROM (SELECT o.created_ns - lag(o.created_ns) OVER (PARTITION BY o.rank ORDER BY o.ord) AS gap
        FROM facts.op AS o JOIN facts.dump AS d ON d.rank = o.rank WHERE d.from_process)
),
open AS (
  SELECT o.rank, o.ord, o.gid, o.seq, o.is_p2p, o.one_way, coalesce(o.synchronising AND o.seq <= k.peak, false) AS unnoticed,
    coalesce(o.seq < k.peak, false) AS over,
    -- given up by the watchdog, or old in a running process: it was looked at, and has not finished
    o.timed_out OR (d.from_process AND d.snapshot_ns - o.created_ns >= (SELECT limit_ns FROM longest)) AS looked_at,
    d.from_process AND coalesce(d.snapshot_ns - o.created_ns < (SELECT limit_ns FROM longest), false) AS young
  FROM facts.op AS o
  JOIN facts.dump AS d ON d.rank = o.rank
  LEFT JOIN facts.peak AS k ON k.gid = o.gid
  LEFT JOIN facts.position AS p ON p.gid = o.gid AND p.rank = o.rank
  LEFT JOIN settled AS s ON o.is_p2p AND s.rank = o.rank AND s.gid = o.gid AND s.signature_id = o.signature_id
    AND s.call_id = o.call_id AND s.ord > o.ord
  WHERE NOT o.done AND (o.is_p2p OR coalesce(o.seq > greatest(p.own_done, p.counted_done), true)) AND s.rank IS NULL
),
behind AS (  -- a rank that misses what its peers saw finish: only the newest of these can be where it is stuck
  SELECT rank, max(ord) AS ord, count(*) AS missed, coalesce(bool_or(looked_at), false) AS looked_at FROM open WHERE unnoticed GROUP BY rank
),
counted AS (  -- a ring too short for its blocking point: the counters still name it, if only one group has one
  SELECT p.rank, -1 AS ord, any_value(p.gid) AS gid, any_value(p.counted_done + 1) AS seq, false AS is_p2p, false AS one_way,
    false AS unnoticed, false AS young
  FROM facts.position AS p
  JOIN facts.ring AS r ON r.rank = p.rank
  WHERE r.short AND p.counted_done < p.enq AND p.counted_done + 1 < coalesce(p.oldest, 9223372036854775807)
  GROUP BY p.rank
  HAVING count(*) = 1
),
every AS (
  SELECT o.rank, o.ord, o.gid, o.seq, o.is_p2p, o.one_way, o.unnoticed, o.young
  FROM open AS o LEFT JOIN behind AS b ON b.rank = o.rank
  WHERE NOT (o.over AND NOT coalesce(o.ord = b.ord, false)) AND o.ord >= coalesce(b.ord, o.ord)
  UNION ALL FROM counted
)
SELECT
  e.rank, e.ord, e.gid, e.seq, e.is_p2p, e.one_way, e.unnoticed, e.young,
  e.unnoticed AND g.reports_completion AND coalesce(b.missed = 1 AND NOT b.looked_at, false)
    AND (coalesce(p.enq > e.seq OR a.seq IS NULL, true) OR max(e.ord) OVER (PARTITION BY e.rank) > e.ord) AS may_ignore,
  coalesce(p.enq > e.seq OR a.seq IS NULL, true) AS next_entered,
  coalesce(a.seq > p.enq, false) AS lags
FROM every AS e
JOIN facts.process_group AS g ON g.gid = e.gid
LEFT JOIN behind AS b ON b.rank = e.rank
LEFT JOIN facts.position AS p ON p.gid = e.gid AND p.rank = e.rank
LEFT JOIN (SELECT gid, max(seq) AS seq FROM every WHERE NOT unnoticed GROUP BY gid) AS a ON a.gid = e.gid AND a.seq > e.seq
