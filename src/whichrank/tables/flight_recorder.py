"""What PyTorch's Flight Recorder leaves: entries, groups, dumps, and the lookups that hold what repeats."""

from __future__ import annotations

from whichrank.tables.spec import FRAME, ORIGIN, PLACE, Column, Table

SIGNATURE = Table(
    "python",
    "torch_nccl_signature",
    "one distinct (operation, sizes, dtypes)",
    "What a call looks like, stored once: millions of entries share a few hundred signatures.",
    (
        Column("signature_id", "BIGINT", "Hash of the content; equal signatures have equal ids in every process."),
        Column("profiling_name", "VARCHAR", "`<library>:<operation>`; p2p with group-local ranks: `nccl:send 0->3`."),
        Column("input_sizes", "BIGINT[][]", "Shape of each input tensor."),
        Column("input_dtypes", "VARCHAR[]", "dtype of each input tensor, as torch prints it (`BFloat16`)."),
        Column("output_sizes", "BIGINT[][]", "Shape of each output tensor."),
        Column("output_dtypes", "VARCHAR[]", "dtype of each output tensor."),
    ),
    key="signature_id",
)

STACK = Table(
    "python",
    "torch_nccl_stack",
    "one distinct call stack",
    "Call stacks, stored once and named by content.",
    (
        Column("stack_id", "BIGINT", "Hash of the frames; equal stacks have equal ids in every process."),
        Column("frames", f"{FRAME}[]", "Frames, innermost first."),
        Column("top_frame", "VARCHAR", "Innermost frame as `function (file:line)`."),
        Column("user_frame", "VARCHAR", "Innermost frame outside torch, as `file.py:line in function`."),
        Column("call_site_id", "BIGINT", "Hash of all frames outside torch; NULL where there is none."),
    ),
    key="stack_id",
)

RANKS = Table(
    "python",
    "torch_nccl_ranks",
    "one distinct list of ranks",
    "Members of process groups, stored once: every dump of a 10,000-rank job repeats the whole list.",
    (
        Column("ranks_id", "BIGINT", "Hash of the list; equal lists have equal ids in every process."),
        Column("ranks", "BIGINT[]", "Global ranks in group order: position = group-local rank."),
    ),
    key="ranks_id",
)

FLIGHT_RECORD = Table(
    "python",
    "torch_nccl_flight_record",
    "one Flight Recorder entry of one snapshot",
    "PyTorch's Flight Recorder: the last collectives and p2p calls of a process, as its dump shows them.",
    (
        *ORIGIN,
        Column("world_size", "BIGINT", "Size of the job. A dump file does not say it."),
        *PLACE,
        Column("backend", "VARCHAR", "Library before the operation's name (`nccl`, `gloo`).", via="signature"),
        Column(
            "source",
            "VARCHAR",
            "`file` (a dump left behind), `process` (a running job was asked), `exit` (left by one that ended).",
        ),
        Column("only_active", "BOOLEAN", "Only unfinished entries were asked for; dump files do not say it."),
        Column("snapshot_ns", "BIGINT", "When the dump was taken, by the clock of that host.", "ns since epoch"),
        Column("entry_index", "BIGINT", "Position in the dump, oldest first; counts from 0."),
        Column("record_id", "BIGINT", "Counter over all groups of the process. Not comparable between ranks."),
        Column("pg_id", "BIGINT", "Number of the group inside this process. Not comparable between ranks."),
        Column("pg_name", "VARCHAR", "Name of the group; comparable, but one name may mean several sets of ranks."),
        Column("pg_desc", "VARCHAR", "What the user called the group."),
        Column("collective_seq_id", "BIGINT", "Counts a group's collectives; p2p entries carry the current value."),
        Column("p2p_seq_id", "BIGINT", "Counts this rank's p2p launches in the group. Not comparable between ranks."),
        Column("op_id", "BIGINT", "Counts logical operations of the group, p2p too."),
        Column("profiling_name", "VARCHAR", SIGNATURE.columns[1].doc, via="signature"),
        Column("state", "VARCHAR", "`scheduled`, `started` or `completed`; gloo leaves it at scheduled for ever."),
        *(Column(c.name, c.type, c.doc, via="signature") for c in SIGNATURE.columns[2:]),
        Column("time_created_ns", "BIGINT", "When the host enqueued it, by the clock of that host.", "ns since epoch"),
        Column(
            "time_discovered_started_ns", "BIGINT", "When the watchdog, which polls, saw the start.", "ns since epoch"
        ),
        Column(
            "time_discovered_completed_ns", "BIGINT", "When the watchdog, which polls, saw the end.", "ns since epoch"
        ),
        Column("duration_ns", "BIGINT", "Time on the device; only with timing on. PyTorch's duration_ms.", "ns"),
        Column("timeout_ms", "BIGINT", "Timeout of the group.", "ms"),
        Column("retired", "BOOLEAN", "No longer watched. Retired and not completed = timed out (NCCL) or done (gloo)."),
        Column("is_p2p", "BOOLEAN", "Send or receive. The closing entry of a p2p batch says false."),
        Column("thread_id", "VARCHAR", "Issuing CPU thread."),
        Column("thread_name", "VARCHAR", "Its name (`pt_autograd_0`)."),
        Column("fr_version", "VARCHAR", "Version of the dump; `2.2-list` for the unversioned list of torch 2.2."),
        Column("signature_id", "BIGINT", "See torch_nccl_signature."),
        Column("stack_id", "BIGINT", "See torch_nccl_stack; NULL where the dump has no frames."),
        Column("frames", f"{FRAME}[]", STACK.columns[1].doc, via="stack"),
        Column("top_frame", "VARCHAR", STACK.columns[2].doc, via="stack"),
    ),
)

PG_STATUS = Table(
    "python",
    "torch_nccl_pg_status",
    "one process group as one process sees it",
    "What a process says of its groups: counters by pg_id, members by name; one side may be missing.",
    (
        *ORIGIN,
        Column("world_size", "BIGINT", "Size of the job. A dump file does not say it."),
        *PLACE,
        Column("snapshot_ns", "BIGINT", "When the dump was taken, by the clock of that host.", "ns since epoch"),
        Column("pg_id", "BIGINT", "Number of the group inside this process; NULL where no entry ties the name to one."),
        Column("pg_name", "VARCHAR", "Name of the group; NULL where no entry ties the pg_id to one."),
        Column("pg_desc", "VARCHAR", "What the user called the group."),
        Column("ranks", "BIGINT[]", "Members in group order; NULL where the dump does not say.", via="ranks"),
        Column("ranks_id", "BIGINT", "See torch_nccl_ranks."),
        Column("ranks_recorded", "BOOLEAN", "True where the dump itself holds the members."),
        Column("last_enqueued_collective", "BIGINT", "Newest number handed out; collectives and p2p share the field."),
        Column("last_started_collective", "BIGINT", "Newest number seen to start; NULL unless timing is on."),
        Column("last_completed_collective", "BIGINT", "Newest number seen to finish; NULL where none has."),
    ),
)

DUMP = Table(
    "python",
    "torch_nccl_dump",
    "one dump of one process",
    "Which dumps were read, and what their heads say: a rank with an empty dump was seen, a rank without one was not.",
    (
        *ORIGIN,
        Column("world_size", "BIGINT", "Size of the job. A dump file does not say it."),
        *PLACE,
        Column("source", "VARCHAR", "`file`, `process`, or `exit` (left by a process that ended)."),
        Column("path", "VARCHAR", "File the dump was read from; NULL for a process."),
        Column("fr_version", "VARCHAR", "Version string; `2.2-list` for the unversioned list of torch 2.2."),
        Column("comm_lib_version", "VARCHAR", "NCCL's version; NULL where the dump does not say."),
        Column("only_active", "BOOLEAN", "Only unfinished entries were asked for; dump files do not say it."),
        Column("snapshot_ns", "BIGINT", "When the dump was taken, by the clock of that host.", "ns since epoch"),
        Column("entries", "BIGINT", "Entries in the dump.", "entries"),
        Column("bytes", "BIGINT", "Size of the dump.", "bytes"),
    ),
)

LOOKUPS = {"signature": SIGNATURE, "stack": STACK, "ranks": RANKS}
