-- summary: "Who is behind in a communicator without waiting in another, and whom RAS cannot reach."
-- grain: one (communicator, rank)
-- reads: [facts.ras_rank]
-- rules: [V2, V4]
-- columns:
--   told: {doc: "The check that tells it: `ras_unreachable`, `ras_rank_behind`, `ras_unclear`."}
--   category: {doc: Category of the diagnosis.}
--   nth: {doc: Place of the category in the order of verdicts.}
--   comm: {doc: The communicator.}
--   comm_rank: {doc: Rank in it.}
--   rank: {doc: "Global rank; NULL where nothing tells it, or where nobody is accused."}
--   leads: {doc: It is the verdict where nothing else names anybody.}
WITH held AS (  -- communicators in which somebody is behind, and stays behind
  SELECT * FROM facts.ras_rank WHERE least < most AND NOT ending AND moves IS NOT true
),
waiting AS (SELECT DISTINCT process FROM held WHERE launched > least),
lost AS (
  SELECT DISTINCT ON (process) * FROM facts.ras_rank WHERE lost IS NOT NULL ORDER BY process, n_ranks DESC, comm
),
behind AS (  -- the others in between are merely ahead by less
  SELECT h.*, count(*) OVER (PARTITION BY comm) * 2 > n_ranks AS most_of_them
  FROM held AS h WHERE launched = least
),
root AS (SELECT DISTINCT ON (b.process) b.* FROM behind AS b ANTI JOIN waiting AS w USING (process) ORDER BY b.process, b.n_ranks DESC, b.comm),
-- who is behind in a communicator of mostly such ranks may as well be right, and the few ahead wrong
plain AS (SELECT * FROM root WHERE NOT most_of_them),
said AS (
  SELECT 'ras_unreachable' AS told, CASE WHEN lost = 'dead' THEN 'rank_died' ELSE 'rank_without_dump' END AS category,
    CASE WHEN lost = 'dead' THEN 0 ELSE 10 END AS nth, comm, comm_rank, rank FROM lost
  UNION ALL
  SELECT 'ras_rank_behind', 'rank_not_joined', 8, comm, comm_rank, rank FROM plain
  UNION ALL
  SELECT 'ras_unclear', 'insufficient_evidence', 11, comm, comm_rank, NULL FROM behind
  WHERE NOT EXISTS (FROM plain) AND NOT EXISTS (FROM lost)
)
SELECT * REPLACE (CASE WHEN told = 'ras_unclear' OR rank IS NOT NULL THEN category ELSE 'insufficient_evidence' END AS category,
    CASE WHEN told = 'ras_unclear' OR rank IS NOT NULL THEN nth ELSE 11 END AS nth),
  told = 'ras_unreachable' OR NOT EXISTS (FROM lost) AS leads
FROM said
