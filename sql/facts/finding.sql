-- summary: "What is told to the reader: one finding per fault, the rest of what hangs folded under it."
-- grain: one finding
-- reads: [facts.block, facts.member, facts.op, facts.position, facts.process_group, facts.rank_end, facts.reach, facts.scene, facts.signature, facts.suspect]
-- optional: {facts.log_finding: python.torch_nccl_watchdog_log, facts.log_reason: python.torch_nccl_watchdog_log, facts.ras_group: nccl.ras_status, facts.stand: python.backtrace}
-- rules: [V2, V9]
-- columns:
--   category: {doc: Category of the diagnosis.}
--   root: {doc: "It is part of the verdict; else a warning beside it."}
--   gid: {doc: The group.}
--   seq: {doc: "Sequence number; NULL for p2p."}
--   event: {doc: "The event it shows in; NULL for operations that are over."}
--   group_name: {doc: What people call the group.}
--   group_size: {unit: ranks, doc: Members of the group.}
--   op: {doc: The operation.}
--   ranks: {doc: "Accused, ascending; empty where nobody is."}
--   also_accused: {doc: "Accused in other findings of the same verdict, ascending."}
--   waiting: {doc: Ranks that wait there.}
--   waited_s: {unit: s, doc: "At least so long; NULL where it cannot be told."}
--   last_seq: {doc: "What the first accused entered last in this group; NULL where it cannot be told."}
--   last_seen: {doc: The last thing the first accused did.}
--   ras: {doc: "What NCCL RAS says of the group, and whether it agrees; NULL without it."}
--   stands: {doc: "Where the first accused stands now, as stacks say; NULL without stacks."}
--   explains: {doc: Other open operations that come down to this one.}
--   by_log: {doc: A log says it; else dumps do.}
--   said: {doc: "What a log says, with the place it says it at; of what dumps show, what it says of the first accused."}
--   called: {doc: "What the first accused called where calls differ, as a log says; NULL for dumps."}
--   usual: {doc: "What most others called there, as a log says; NULL without a majority."}
--   evidence: {doc: "The rows behind it: what accused and waiting ranks entered there."}
WITH place AS (  -- the same ranks hold up many events: tell the one that shows most of them, and of these the first
  SELECT s.*, e.entered_ns, coalesce(len(e.waiting), 0) AS waiting, count(*) OVER (PARTITION BY s.category, s.event, s.gid, s.seq) AS accused
  FROM facts.suspect AS s LEFT JOIN facts.scene AS e USING (event)
  WHERE NOT s.by_log AND (s.in_verdict OR s.event IS NULL
    {% if "python.torch_nccl_watchdog_log" in has %}
    -- where a log says outright who died, what the dumps show beside it is worth a line
    OR (s.nth < 10 AND NOT EXISTS (FROM facts.suspect AS o WHERE NOT o.by_log AND o.in_verdict))
    {% endif %})
),
fault AS (
  SELECT category, in_verdict AS root, ignoring, event, gid, seq, nth, coalesce(list_sort(list(rank) FILTER (rank IS NOT NULL)), []) AS ranks
  FROM (FROM place QUALIFY row_number() OVER (PARTITION BY category, rank, in_verdict ORDER BY accused DESC, entered_ns, waiting DESC, gid, seq, event) = 1)
  GROUP BY ALL
),
open AS (  -- everything that is open, with the event its rank waits in
  SELECT b.event, o.gid, o.seq, g.label || ' #' || o.seq AS label
  FROM facts.block AS b
  JOIN facts.op AS o ON o.rank = b.rank AND o.ord > b.ord AND o.seq IS NOT NULL AND NOT o.done
  JOIN facts.process_group AS g ON g.gid = o.gid
  UNION SELECT event, gid, seq, label FROM facts.scene
),
folded AS (
  SELECT f.category, f.event, list(DISTINCT o.label ORDER BY o.label) AS explains
  FROM fault AS f
  JOIN facts.reach AS r ON r.reached = f.event AND r.ignoring = f.ignoring
  JOIN open AS o ON o.event = r.event
  WHERE f.root AND (o.gid <> f.gid OR o.seq IS DISTINCT FROM f.seq)
  GROUP BY f.category, f.event
),
witness AS (  -- of accused and of waiting ranks the first few
  SELECT category, event, gid, seq, 'accused' AS role, unnest(ranks[:8]) AS rank FROM fault
  UNION ALL
  SELECT f.category, f.event, f.gid, f.seq, 'waiting', unnest(list_filter(e.waiting, lambda w: NOT list_contains(f.ranks, w))[:8])
  FROM fault AS f JOIN facts.scene AS e USING (event)
),
proof AS (
  SELECT w.category, w.gid, w.seq, w.event, list(struct_pack(
      rank := w.rank, role := w.role, entered := s.op, seq := coalesce(o.seq, p.enq), finished := o.done, last := z.last_seen)
    ORDER BY w.role, w.rank) AS evidence
  FROM witness AS w
  LEFT JOIN facts.op AS o ON o.rank = w.rank AND o.gid = w.gid AND o.seq = w.seq
  LEFT JOIN facts.signature AS s ON s.signature_id = o.signature_id
  LEFT JOIN facts.position AS p ON p.gid = w.gid AND p.rank = w.rank
  LEFT JOIN facts.rank_end AS z ON z.rank = w.rank
  GROUP BY ALL
),
seen AS (
  SELECT
    f.category, f.root, f.gid, f.seq, f.event, g.label AS group_name,
    (SELECT count(*) FROM facts.member AS m WHERE m.gid = f.gid) AS group_size,
    coalesce(e.op, (SELECT mode(s.op) FROM facts.op AS o JOIN facts.signature AS s USING (signature_id) WHERE o.gid = f.gid AND o.seq = f.seq)) AS op,
    f.ranks,
    list_sort(list_distinct(list_filter(flatten(list(f.ranks) FILTER (f.root) OVER ()), lambda r: f.root AND NOT list_contains(f.ranks, r)))) AS also_accused,
    e.waiting, e.waited_s, p.enq AS last_seq, z.last_seen,
    {% if 'nccl.ras_status' in has %}
    CASE
      WHEN f.category IN ('rank_not_joined', 'collective_skipped', 'rank_without_dump') AND len(f.ranks) > 0
        THEN CASE WHEN list_has_all(y.behind, f.ranks) THEN 'agrees: ' ELSE 'disagrees: ' END
      WHEN f.category IN ('all_joined_none_finished', 'stuck_on_device') THEN CASE WHEN len(y.behind) = 0 THEN 'agrees: ' ELSE 'disagrees: ' END
      ELSE ''
    END || y.says{% else %}NULL::VARCHAR{% endif %} AS ras,
    {% if 'python.backtrace' in has %}t.words || coalesce(', ' || t.place, '') || CASE WHEN t.still THEN ', the same at ' || t.looks || ' looks' ELSE '' END{% else %}NULL::VARCHAR{% endif %} AS stands,
    coalesce(d.explains, []) AS explains,
    false AS by_log,
    {% if "python.torch_nccl_watchdog_log" in has %}
    (SELECT any_value(l.said) FROM facts.log_reason AS l WHERE l.rank = f.ranks[1]) AS said,
    {% else %}
    NULL::VARCHAR AS said,
    {% endif %}
    NULL::VARCHAR AS called, NULL::VARCHAR AS usual, v.evidence, f.nth
  FROM fault AS f
  JOIN facts.process_group AS g USING (gid)
  LEFT JOIN facts.scene AS e ON e.event = f.event
  LEFT JOIN facts.position AS p ON p.gid = f.gid AND p.rank = f.ranks[1]
  LEFT JOIN facts.rank_end AS z ON z.rank = f.ranks[1]
  LEFT JOIN folded AS d ON d.category = f.category AND d.event = f.event
  LEFT JOIN proof AS v ON v.category = f.category AND v.event IS NOT DISTINCT FROM f.event AND v.gid = f.gid AND v.seq IS NOT DISTINCT FROM f.seq
  {% if 'nccl.ras_status' in has %}LEFT JOIN facts.ras_group AS y ON y.gid = f.gid{% endif %}
  {% if 'python.backtrace' in has %}LEFT JOIN facts.stand AS t ON t.rank = f.ranks[1]{% endif %}
)
{% if "python.torch_nccl_watchdog_log" in has %}
SELECT * EXCLUDE (nth) FROM (FROM seen UNION ALL BY NAME FROM facts.log_finding)
{% else %}
SELECT * EXCLUDE (nth) FROM seen
{% endif %}
ORDER BY root DESC, nth, len(ranks) DESC, gid, seq
