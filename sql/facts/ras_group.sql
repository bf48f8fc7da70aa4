-- summary: "What NCCL RAS says of the communicator behind a process group: that with the same ranks."
-- grain: one group whose communicator is known
-- reads: [facts.member, facts.ras_rank]
-- columns:
--   gid: {doc: The group.}
--   behind: {doc: "Global ranks that have launched less than others, or that RAS cannot reach, ascending."}
--   says: {doc: "That in words: `rank 1 launched 100 collectives, the others 101`."}
WITH known AS (
  SELECT comm, list_sort(list(rank)) AS ranks,
    coalesce(list_sort(list(rank) FILTER (lost IS NOT NULL OR (launched = least AND least < most))), []) AS behind,
    list_sort(list(rank) FILTER (lost IS NOT NULL)) AS lost, min(least) AS least, max(most) AS most,
    list_sort(list(DISTINCT launched) FILTER (launched > least)) AS ahead
  FROM facts.ras_rank GROUP BY comm HAVING count(*) = count(rank)
),
grouped AS (SELECT gid, list_sort(list(rank)) AS ranks FROM facts.member GROUP BY gid)
SELECT DISTINCT ON (g.gid) g.gid, k.behind,  -- several communicators of the same ranks: the one in which somebody is behind
  CASE
    WHEN k.lost IS NOT NULL THEN 'no answer of ' || CASE WHEN len(k.lost) = 1 THEN 'rank ' ELSE 'ranks ' END || array_to_string(k.lost[:8], ', ')
    WHEN k.least = k.most THEN 'all members launched ' || k.most || ' collectives'
    ELSE CASE WHEN len(k.behind) = 1 THEN 'rank ' ELSE 'ranks ' END || array_to_string(k.behind[:8], ', ') || ' launched ' || k.least
      || ' collectives, the others ' || array_to_string(k.ahead[:4], ', ')
  END AS says
FROM grouped AS g JOIN known AS k ON k.ranks = g.ranks
ORDER BY g.gid, len(k.behind) = 0, k.most DESC, k.comm
