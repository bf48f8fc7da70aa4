"""What logs say."""

from __future__ import annotations

from whichrank.tables.spec import ORIGIN, PLACE, Column, Table

WATCHDOG_LOG = Table(
    "python",
    "torch_nccl_watchdog_log",
    "one line of a log that says something about the job",
    "What logs say: watchdog, desync report, dump signals, ends of processes, CUDA, driver and NCCL errors.",
    (
        *ORIGIN,
        *PLACE,
        Column("path", "VARCHAR", "File it stands in."),
        Column("line", "BIGINT", "Number of the line, from 1."),
        Column("attempt", "BIGINT", "Restarts of the job by torchrun above this line, as far as the log tells."),
        Column("kind", "VARCHAR", "What the line is: `watchdog_timeout`, `failure_status`, `elastic_failure` …"),
        Column(
            "logged_at", "VARCHAR", "Month, day and time as printed (`03-18 12:29:08.115292493`); no year, no zone."
        ),
        Column("severity", "VARCHAR", "Letter of the logger: `I`, `W`, `E` or `F` (the process aborts)."),
        Column("source", "VARCHAR", "Source file and line that printed it."),
        Column("pg_id", "BIGINT", "Number of the group inside that process. Not comparable between ranks."),
        Column("pg_name", "VARCHAR", "Name (GUID) of the group; comparable."),
        Column("pg_desc", "VARCHAR", "What the user called the group."),
        Column("group_rank", "BIGINT", "Rank inside the group, of whom the line is about."),
        Column("work_rank", "BIGINT", "`[Rank n]`: the rank inside the group of the first work of that process."),
        Column("local_rank", "BIGINT", "Rank on its host."),
        Column(
            "peer_rank", "BIGINT", "Another rank the line names: who signalled first, who differs, who is the root."
        ),
        Column("ranks", "BIGINT[]", "Ranks the line names, inside their group."),
        Column("seq", "BIGINT", "Sequence number in the group (`SeqNum`, operation count)."),
        Column("op", "VARCHAR", "Operation as printed (`ALLREDUCE`)."),
        Column("numel_in", "BIGINT", "Elements put in.", "elements"),
        Column("numel_out", "BIGINT", "Elements got out.", "elements"),
        Column("shape", "VARCHAR", "Shape as printed."),
        Column("dtype", "VARCHAR", "Type as printed."),
        Column("other_seq", "BIGINT", "Sequence number of the other rank."),
        Column("other_op", "VARCHAR", "Operation of the other rank."),
        Column("other_shape", "VARCHAR", "Shape of the other rank."),
        Column("other_dtype", "VARCHAR", "Type of the other rank."),
        Column("timeout_ms", "BIGINT", "Timeout of the work.", "ms"),
        Column("ran_ms", "BIGINT", "How long it had waited.", "ms"),
        Column("stuck_s", "BIGINT", "How long the watchdog thread had not moved.", "s"),
        Column("last_enqueued", "BIGINT", "Newest number handed out in that group."),
        Column("last_started", "BIGINT", "Newest number seen to start; NULL unless timing is on."),
        Column("last_completed", "BIGINT", "Newest number seen to finish; NULL where none has."),
        Column("world_size", "BIGINT", "Members of the job, or of the communicator, as the line says.", "ranks"),
        Column("joined", "BIGINT", "How many of them had come.", "ranks"),
        Column("exit_code", "BIGINT", "Exit code; negative: killed by that signal."),
        Column("signal", "VARCHAR", "Name of the signal."),
        Column("is_first", "BOOLEAN", "torchrun calls it the first failure it saw on its host."),
        Column("pid", "BIGINT", "Process the line is about."),
        Column("device", "BIGINT", "CUDA device of that process; no rank."),
        Column("xid", "BIGINT", "Number of an Xid error of the driver."),
        Column("comm", "VARCHAR", "Communicator, as an address of that process."),
        Column("address", "VARCHAR", "Network or PCI address the line names."),
        Column("text", "VARCHAR", "What the line says in its own words, cut at 500 characters."),
    ),
)
