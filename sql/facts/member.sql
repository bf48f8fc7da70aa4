-- summary: Who belongs to which group, and how we know.
-- grain: one (group, rank)
-- reads: [python.torch_nccl_ranks, facts.dump, facts.pg_of_rank, facts.process_group]
-- rules: [P1, V7]
-- columns:
--   gid: {doc: The group.}
--   rank: {doc: Global rank.}
--   local_rank: {doc: Rank inside the group; NULL where only the use of the group shows membership.}
--   how: {doc: "`recorded` in a dump; `used` it; `numbered` by its pg_ids; `counted`: the default group holds every rank."}
--   seen: {doc: This rank left a dump.}
WITH recorded AS (
  SELECT g.gid, unnest(m.ranks) AS rank, generate_subscripts(m.ranks, 1) - 1 AS local_rank, 'recorded' AS how
  FROM facts.process_group AS g
  JOIN {{ python }}.torch_nccl_ranks AS m USING (ranks_id)
),
users AS (
  SELECT DISTINCT p.gid, p.rank, 'used' AS how
  FROM facts.pg_of_rank AS p JOIN facts.process_group AS g USING (gid)
  WHERE p.used AND NOT g.recorded
),
everybody AS (
  SELECT g.gid, unnest(range(0, (SELECT max(rank) + 1 FROM facts.dump))) AS rank, 'counted' AS how
  FROM facts.process_group AS g WHERE g.is_default AND NOT g.recorded
),
-- A name that counts the groups of the job beside a pg_id that counts those of the process: what lies between two
-- shown groups is all theirs or all not theirs when the gaps are equal.
counter AS (
  SELECT rank, pg_id, try_cast(name AS BIGINT) AS number FROM facts.pg_of_rank
  WHERE pg_id IS NOT NULL AND try_cast(name AS BIGINT) IS NOT NULL
  UNION ALL SELECT rank, -1, -1 FROM facts.dump
),
gap AS (
  SELECT rank, number AS below, lead(number) OVER w AS above, lead(pg_id) OVER w - pg_id - 1 AS missing
  FROM counter WINDOW w AS (PARTITION BY rank ORDER BY number)
),
numbered AS (
  SELECT g.gid, gap.rank, 'numbered' AS how
  FROM gap
  JOIN facts.process_group AS g ON try_cast(g.name AS BIGINT) > gap.below AND try_cast(g.name AS BIGINT) < gap.above
  WHERE NOT g.recorded AND gap.missing > 0
    AND gap.missing = gap.above - gap.below - 1 - (
      SELECT count(DISTINCT try_cast(o.name AS BIGINT)) FROM facts.process_group AS o
      WHERE o.recorded AND try_cast(o.name AS BIGINT) > gap.below AND try_cast(o.name AS BIGINT) < gap.above
        AND NOT EXISTS (FROM recorded AS r WHERE r.gid = o.gid AND r.rank = gap.rank))
),
joined AS (
  SELECT gid, rank, local_rank, how FROM recorded
  UNION ALL BY NAME FROM users
  UNION ALL BY NAME FROM everybody
  UNION ALL BY NAME FROM numbered
)
SELECT
  gid, rank, max(local_rank) AS local_rank,
  arg_min(how, list_position(['recorded', 'used', 'numbered', 'counted'], how)) AS how,
  EXISTS (FROM facts.dump AS d WHERE d.rank = joined.rank) AS seen
FROM joined
GROUP BY gid, rank
