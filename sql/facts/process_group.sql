-- summary: The process groups of the job.
-- grain: one process group
-- reads: [facts.pg_of_rank, facts.usage]
-- rules: [P1, P6]
-- columns:
--   gid: {doc: "Number of the group in this diagnosis."}
--   name: {doc: Name of the group; NULL where no dump says one.}
--   label: {doc: "What people read: the description where it says something, else the name."}
--   ranks_id: {doc: Members as recorded; NULL where no dump says them.}
--   recorded: {doc: The members were recorded; false where they are inferred.}
--   is_default: {doc: It is the default group.}
--   reports_completion: {doc: The library sets state completed.}
--   has_p2p: {doc: Some member sends or receives in it.}
WITH merged AS (
  SELECT
    g.gid,
    any_value(g.name) AS name,
    any_value(g.ranks_id) AS ranks_id,
    bool_or(g.is_default) AS is_default,
    mode(g.description) FILTER (g.description NOT IN ('', 'undefined')) AS description,
    coalesce(bool_and(g.reports_completion), true) AS reports_completion,
    coalesce(bool_or(u.has_p2p), false) AS has_p2p,
    min(g.pg_id) AS pg_id
  FROM facts.pg_of_rank AS g
  LEFT JOIN facts.usage AS u ON u.rank = g.rank AND u.pg_id = g.pg_id
  GROUP BY g.gid
),
labelled AS (
  SELECT *, coalesce(description, CASE WHEN is_default THEN 'default_pg' END, 'group ' || coalesce(name, pg_id::VARCHAR)) AS short
  FROM merged
)
SELECT
  gid, name,
  -- ten data-parallel groups share one description: then the name, which is unique, goes with it
  CASE WHEN count(*) OVER (PARTITION BY short) > 1 AND name IS NOT NULL AND description IS NOT NULL
    THEN short || ' (' || name || ')' ELSE short END AS label,
  ranks_id, ranks_id IS NOT NULL AS recorded, is_default, reports_completion, has_p2p
FROM labelled
