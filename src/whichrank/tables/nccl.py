"""What NCCL itself says: RAS, profiler plugins. Ranks and peers are numbered within the communicator there.

`rank` is therefore the rank in the communicator, as the file says it; `facts.comm_rank` knows the global rank where
anything tells it. `host` stays NULL: these are files, and what they call a node may be an address; it is in `node`.
"""

from __future__ import annotations

from whichrank.tables.spec import ORIGIN, PLACE, Column, Table

_COMM = (
    ORIGIN[0],
    Column("rank", "BIGINT", "Rank in the communicator, as the file says it: not the global rank (facts.comm_rank)."),
    *PLACE,
    Column("path", "VARCHAR", "File it was read from."),
    Column("comm_hash", "VARCHAR", "The communicator, as `0x` and 16 hexadecimal digits; the same on all its ranks."),
)

RAS_STATUS = Table(
    "nccl",
    "ras_status",
    "one rank of one communicator at one query",
    "What `ncclras -f json` says of every communicator: how many collectives each rank has launched, who is missing.",
    (
        *_COMM,
        Column("secondary_hash", "VARCHAR", "Makes comm_hash unique; RAS shows both."),
        Column("n_ranks", "BIGINT", "Size of the communicator.", "ranks"),
        Column("asked_ns", "BIGINT", "When RAS was asked; it tells no time zone, so as if UTC.", "ns since epoch"),
        Column("node", "VARCHAR", "Host of the process, as RAS shows it: an address."),
        Column("pid", "BIGINT", "Process id on its host."),
        Column("cuda_dev", "BIGINT", "Device, as the process numbers it."),
        Column("nvml_dev", "BIGINT", "Device, as the host numbers it."),
        Column("missing", "BOOLEAN", "RAS has no data of this rank; all below but the next two are NULL then."),
        Column("unresponsive", "BOOLEAN", "RAS could not reach the process; only of missing ranks."),
        Column("considered_dead", "BOOLEAN", "RAS gave up on the process after 60 s; only of missing ranks."),
        Column("launched", "BIGINT", "Collectives launched so far, of all operations.", "collectives"),
        Column("coll_funcs", "VARCHAR[]", "The operations (`AllReduce`)."),
        Column("coll_counts", "BIGINT[]", "Launched so far of each of coll_funcs.", "collectives"),
        Column("init_state", "BIGINT", "ncclResult_t: 0 is ready, 7 is still initialising, else an error."),
        Column("async_error", "BIGINT", "ncclResult_t of ncclCommGetAsyncError: 0 is none."),
        Column("finalize_called", "BOOLEAN", "The rank has called ncclCommFinalize."),
        Column("destroy_flag", "BOOLEAN", "The rank is destroying the communicator."),
        Column("abort_flag", "BOOLEAN", "The rank has aborted the communicator."),
        Column("nccl_version", "VARCHAR", "Version of NCCL."),
    ),
)
