-- summary: "How much of what a communicator waits comes from each root, over all operations that were looked at."
-- grain: one root of one communicator
-- reads: [facts.wait, facts.wait_root]
-- columns:
--   comm_hash: {doc: The communicator.}
--   class: {doc: "`culprit`, `receiver_congested` or `network`."}
--   how: {doc: "`gpu`, `came_late`, `credit` or `link`, as most of it says."}
--   root: {doc: "Its rank in the communicator; for `network` the sending end."}
--   root_peer: {doc: "For `network` the receiving end; else NULL."}
--   ns: {unit: ns, doc: Wait that comes from it.}
--   share: {doc: "Of all wait of the communicator that has a known end."}
--   spread: {doc: "Share of the communicator's waits that is beyond the usual of its least troubled rank."}
--   seqs: {unit: operations, doc: In how many operations.}
--   counts: {doc: "It is enough to be told: the waits are uneven, and a good part comes from here."}
WITH uneven AS (
  SELECT comm_hash, sum(ns) / nullif(sum(raw_ns), 0) AS spread, count(DISTINCT seq) AS seqs FROM facts.wait GROUP BY comm_hash
),
part AS (
  SELECT comm_hash, class, root, root_peer, mode(how) AS how, sum(ns) AS ns, count(DISTINCT seq) AS seqs FROM facts.wait_root GROUP BY ALL
)
SELECT p.comm_hash, p.class, p.how, p.root, p.root_peer, p.ns, p.ns / sum(p.ns) OVER (PARTITION BY p.comm_hash) AS share, u.spread, p.seqs,
  -- less than a tenth of a millisecond for each operation, all ranks together, is nothing
  u.spread >= 0.3 AND p.ns / sum(p.ns) OVER (PARTITION BY p.comm_hash) >= 0.25 AND p.ns >= 100_000 * u.seqs AS counts
FROM part AS p JOIN uneven AS u USING (comm_hash)
