-- summary: "What is told to the reader of what logs say: one finding per category and place."
-- grain: one finding
-- reads: [facts.log_suspect, facts.log_wait, facts.suspect]
-- rules: [V9]
-- columns:
--   category: {doc: Category of the diagnosis.}
--   root: {doc: "It is part of the verdict; else a warning beside it."}
--   gid: {doc: "NULL: a log does not number groups as the dumps do."}
--   seq: {doc: "Sequence number; NULL for p2p."}
--   event: {doc: "NULL: the facts about dumps know nothing of it."}
--   group_name: {doc: What people call the group.}
--   group_size: {unit: ranks, doc: Members of the group.}
--   op: {doc: The operation.}
--   ranks: {doc: "Accused, ascending; empty where nobody is."}
--   also_accused: {doc: "Accused in other findings of the same verdict, ascending."}
--   waiting: {doc: Ranks that wait there.}
--   waited_s: {unit: s, doc: "At least so long; NULL where it cannot be told."}
--   last_seq: {doc: "What the first accused entered last in this group; NULL where it cannot be told."}
--   last_seen: {doc: The last thing the first accused did.}
--   explains: {doc: Other open operations that come down to this one.}
--   by_log: {doc: A log says it; else dumps do.}
--   said: {doc: "What a log says, with the place it says it at; of what dumps show, what it says of the first accused."}
--   called: {doc: "What the first accused called where calls differ, as a log says; NULL for dumps."}
--   usual: {doc: "What most others called there, as a log says; NULL without a majority."}
--   evidence: {doc: "The rows behind it: what accused and waiting ranks entered there."}
--   nth: {doc: "Place of the category in the order of verdicts."}
WITH logged AS (  -- what logs say: one finding per category and place
  SELECT s.category, s.in_verdict AS root, s.nth, l.seq, l.grp, any_value(l.label) AS label,
    coalesce(list_sort(list(DISTINCT l.rank) FILTER (l.rank IS NOT NULL)), []) AS ranks,
    arg_min(regexp_extract(l.path, '([^/]*/)?[^/]*$') || ':' || l.line || ': ' || l.text[:200], l.line) AS said, arg_min(l.own, l.rank) AS own, any_value(l.others) AS others,
    list(struct_pack(
        rank := l.rank, role := 'accused', entered := l.own, seq := l.seq, finished := NULL::BOOLEAN, last := l.text)
      ORDER BY l.rank) AS evidence
  FROM facts.log_suspect AS l
  JOIN facts.suspect AS s
    ON s.by_log AND s.category = l.category AND s.seq IS NOT DISTINCT FROM l.seq AND s.rank IS NOT DISTINCT FROM l.rank
  GROUP BY ALL
),
stood AS (  -- who waited there, by the logs
  SELECT grp, seq, mode(op) AS op, list_sort(list(rank)) AS waiting, max(ran_ms) / 1e3 AS waited_s, max(group_size) AS size
  FROM facts.log_wait WHERE seq IS NOT NULL GROUP BY grp, seq
)
SELECT
  g.category, g.root, NULL AS gid, g.seq, NULL AS event, g.label AS group_name, w.size AS group_size,
  w.op, g.ranks,
  list_sort(list_distinct(list_filter(flatten(list(g.ranks) FILTER (g.root) OVER ()), lambda r: g.root AND NOT list_contains(g.ranks, r)))) AS also_accused,
  coalesce(w.waiting, []::BIGINT[]) AS waiting, w.waited_s,
  (SELECT max(p.done) FROM facts.log_wait AS p WHERE p.grp = g.grp AND p.rank = g.ranks[1]) AS last_seq,
  NULL AS last_seen, []::VARCHAR[] AS explains, true AS by_log, g.said, g.own AS called, g.others AS usual, g.evidence, g.nth
FROM logged AS g LEFT JOIN stood AS w ON w.grp = g.grp AND w.seq = g.seq
