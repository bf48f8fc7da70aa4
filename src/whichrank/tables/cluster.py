"""The processes of a job as the collector inside them sees them."""

from __future__ import annotations

from whichrank.tables.spec import ORIGIN, PLACE, Column, Table

NODES = Table(
    "cluster",
    "nodes",
    "one rank of a watched job at one snapshot",
    "Every rank that was ever seen, whether it answered or not: a rank that stays silent is evidence.",
    (
        *ORIGIN,
        Column("world_size", "BIGINT", "Size of the job."),
        *PLACE,
        Column("local_rank", "BIGINT", "Rank on its host."),
        Column("pid", "BIGINT", "Process id on its host."),
        Column("backend", "VARCHAR", "Backend of the default group, as torch names it."),
        Column("torch_version", "VARCHAR", "Version of torch."),
        Column("nccl_version", "VARCHAR", "Version of NCCL."),
        Column(
            "recorder_entries",
            "BIGINT",
            "TORCH_FR_BUFFER_SIZE or TORCH_NCCL_TRACE_BUFFER_SIZE as it was set; 0 is off; NULL: it was not set.",
            "entries",
        ),
        Column("started_ns", "BIGINT", "When the collector started, by the clock of that host.", "ns since epoch"),
        Column("last_heartbeat_ns", "BIGINT", "Last sign of life, by the clock of the store.", "ns since epoch"),
        Column("answered_ns", "BIGINT", "When it answered, by its clock; NULL: it did not.", "ns since epoch"),
        Column("last_answered", "VARCHAR", "Newest snapshot up to this one that it answered."),
        Column(
            "state",
            "VARCHAR",
            "`answered`; or why not: `stopped` (SIGSTOP), `dead`, `exited`, `failed` (an exception), `terminated`, "
            "`silent`, `never_seen`.",
        ),
    ),
)
