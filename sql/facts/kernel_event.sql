-- summary: "What the kernel logged, and which rank's process it is about."
-- grain: one kind of message, device and rank
-- reads: [process.kmsg, facts.stand]
-- columns:
--   kind: {doc: "`xid`, `oom`, `gpu`, `infiniband`, `file_server`, `blocked_task`, `segfault`."}
--   host: {doc: "The host; NULL where the text does not say it."}
--   device: {doc: "PCI address, port or server."}
--   code: {doc: Number of the Xid.}
--   rank: {doc: "The rank whose process the line names; NULL where it names none of them."}
--   message: {doc: The newest line.}
--   path: {doc: File it stands in.}
--   lines: {unit: lines, doc: How many there are.}
SELECT k.kind, k.host, k.device, k.code, s.rank, arg_max(k.message, coalesce(k.timestamp, (k.boot_s * 1e9)::BIGINT, 0)) AS message, any_value(k.path) AS path, count(*) AS lines
FROM {{ process }}.kmsg AS k
LEFT JOIN facts.stand AS s ON s.pid = k.pid AND (k.host IS NULL OR s.host IS NULL OR s.host = k.host)
GROUP BY k.kind, k.host, k.device, k.code, s.rank
