-- summary: "Which group a process means by one of its pg_ids: groups are (name, set of ranks), pg_ids are private."
-- grain: one (rank, pg_id) that a dump shows
-- reads: [python.torch_nccl_pg_status, python.torch_nccl_ranks, facts.dump, facts.usage]
-- rules: [P1]
-- columns:
--   rank: {doc: Global rank.}
--   pg_id: {doc: Number of the group inside this process; NULL where only a name is known.}
--   gid: {doc: "The group, numbered over the whole job."}
--   name: {doc: Its name; NULL where no dump says one.}
--   description: {doc: What the user called it.}
--   ranks_id: {doc: Its members as recorded; NULL where no dump says them.}
--   is_default: {doc: It is the default group.}
--   used: {doc: This rank has entries of it.}
--   reports_completion: {doc: The library sets state completed; NULL without entries.}
WITH status AS (
  SELECT p.rank, p.pg_id, p.pg_name, p.pg_desc, p.ranks_id
  FROM {{ python }}.torch_nccl_pg_status AS p
  JOIN facts.dump AS d ON d.rank = p.rank AND d.snapshot_id = p.snapshot_id
),
shown AS (
  SELECT
    coalesce(u.rank, s.rank) AS rank,
    coalesce(u.pg_id, s.pg_id) AS pg_id,
    coalesce(u.pg_name, s.pg_name) AS name,
    coalesce(u.pg_desc, s.pg_desc) AS description,
    s.ranks_id,
    u.rank IS NOT NULL AS used,
    u.reports_completion,
    -- one process never means one group by two numbers: pg_config keeps the newest of a name, 0 is that one
    row_number() OVER (PARTITION BY coalesce(u.rank, s.rank), coalesce(u.pg_name, s.pg_name)
                       ORDER BY coalesce(u.pg_id, s.pg_id) DESC) - 1 AS age
  FROM facts.usage AS u
  FULL JOIN status AS s ON s.rank = u.rank AND s.pg_id = u.pg_id
  WHERE coalesce(u.pg_id, s.pg_id) IS NOT NULL AND (u.rank IS NOT NULL OR s.pg_name IS NOT NULL OR s.ranks_id IS NOT NULL)
     OR s.pg_name IS NOT NULL
),
recorded AS (
  SELECT DISTINCT pg_name, ranks_id FROM status WHERE ranks_id IS NOT NULL
),
recorded_member AS (
  SELECT c.pg_name, c.ranks_id, unnest(m.ranks) AS rank
  FROM recorded AS c
  JOIN {{ python }}.torch_nccl_ranks AS m USING (ranks_id)
),
elsewhere AS (  -- members that only another rank's dump shows: the older group of a name, or a dump without pg_config
  SELECT s.rank, s.pg_id, any_value(m.ranks_id) AS ranks_id
  FROM shown AS s
  JOIN recorded_member AS m ON m.rank = s.rank AND m.pg_name = s.name
  WHERE s.ranks_id IS NULL AND s.pg_id IS NOT NULL
    AND NOT EXISTS (FROM status AS own WHERE own.rank = s.rank AND own.pg_name = s.name AND own.ranks_id = m.ranks_id)
  GROUP BY s.rank, s.pg_id
  HAVING count(DISTINCT m.ranks_id) = 1
),
nameless AS (  -- gloo with nothing but the default group records its members under the empty name
  SELECT m.rank, any_value(m.ranks_id) AS ranks_id
  FROM recorded_member AS m
  WHERE m.pg_name IS NULL AND m.ranks_id IN (SELECT ranks_id FROM status WHERE pg_id IS NULL AND pg_name IS NULL)
  GROUP BY m.rank
  HAVING count(DISTINCT m.ranks_id) = 1
),
named AS (  -- FR 1.4 knows no names: take the one that another dump gives to these ranks
  SELECT ranks_id, any_value(pg_name) AS name FROM recorded
  WHERE pg_name IS NOT NULL GROUP BY ranks_id HAVING count(DISTINCT pg_name) = 1
),
resolved AS (
  SELECT
    s.rank, s.pg_id, s.description, s.used, s.reports_completion, s.age,
    coalesce(s.name, n.name) AS name,
    s.description = 'default_pg' OR (s.pg_id = 0 AND coalesce(s.name, n.name, '0') = '0') AS is_default,
    coalesce(s.ranks_id, e.ranks_id,
      CASE WHEN s.description = 'default_pg' OR (s.pg_id = 0 AND coalesce(s.name, '0') = '0') THEN l.ranks_id END) AS ranks_id
  FROM shown AS s
  LEFT JOIN elsewhere AS e ON e.rank = s.rank AND e.pg_id = s.pg_id
  LEFT JOIN nameless AS l ON l.rank = s.rank
  LEFT JOIN named AS n ON s.name IS NULL AND n.ranks_id = s.ranks_id
),
twins AS (  -- several nameless groups of the same ranks: tell them apart by the order of their numbers
  SELECT ranks_id, max(n) AS most, (SELECT count(DISTINCT pg_id) FROM resolved AS r WHERE r.name IS NULL AND r.ranks_id = t.ranks_id) AS numbers
  FROM (SELECT ranks_id, rank, count(*) AS n FROM resolved WHERE name IS NULL AND ranks_id IS NOT NULL GROUP BY ALL) AS t
  GROUP BY ranks_id
),
keyed AS (
  SELECT
    r.*,
    CASE
      WHEN r.name IS NOT NULL AND r.ranks_id IS NOT NULL THEN 0
      WHEN r.name IS NOT NULL THEN r.age
      -- neither name nor members: only the first group is surely the same one everywhere
      WHEN r.ranks_id IS NULL THEN CASE WHEN r.pg_id = 0 THEN 0 ELSE 1 + r.rank * 1000000 + r.pg_id END
      WHEN t.most = 1 THEN 0
      WHEN t.numbers = t.most THEN dense_rank() OVER (PARTITION BY r.name, r.ranks_id ORDER BY r.pg_id)
      ELSE row_number() OVER (PARTITION BY r.rank, r.name, r.ranks_id ORDER BY r.pg_id)
    END AS nth
  FROM resolved AS r
  LEFT JOIN twins AS t ON r.name IS NULL AND t.ranks_id = r.ranks_id
)
SELECT
  rank, pg_id,
  dense_rank() OVER (ORDER BY try_cast(name AS BIGINT), name, ranks_id, nth) AS gid,
  name, description, ranks_id,
  coalesce(bool_or(is_default) OVER (PARTITION BY name, ranks_id, nth), false) AS is_default,
  used, reports_completion
FROM keyed
