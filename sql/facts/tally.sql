-- summary: Per group and sequence number, whether the members agree; the frame every comparison starts from.
-- grain: one (group, sequence number)
-- reads: [facts.op]
-- rules: [L1]
-- columns:
--   gid: {doc: The group.}
--   seq: {doc: Sequence number.}
--   n: {unit: ranks, doc: How many dumps hold it.}
--   call_min: {doc: Smallest call_id; differs from call_max where members do.}
--   call_max: {doc: Largest call_id.}
--   site_min: {doc: Smallest call_site_id.}
--   site_max: {doc: Largest call_site_id.}
SELECT gid, seq, count(*) AS n, min(call_id) AS call_min, max(call_id) AS call_max, min(call_site_id) AS site_min, max(call_site_id) AS site_max
FROM facts.op
WHERE seq IS NOT NULL
GROUP BY gid, seq
