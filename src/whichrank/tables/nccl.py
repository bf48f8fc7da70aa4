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

_PROCESS = (
    Column("node", "VARCHAR", "Host of the process, as the file says it; NULL: it does not."),
    Column("pid", "BIGINT", "Process id on its host."),
    Column("n_ranks", "BIGINT", "Size of the communicator; NULL where the file does not say it.", "ranks"),
)

PROXY_OPS = Table(
    "nccl",
    "proxy_ops",
    "one send or receive of one channel of one operation",
    "What NCCL's proxy threads waited for, summed over the steps of a send or receive; steps overlap in time. From "
    "traces of NVIDIA's example profiler plugin, or from proxy_trace records of NCCL Inspector.",
    (
        *_COMM,
        Column("source", "VARCHAR", "`profiler` (example plugin) or `inspector`."),
        *_PROCESS,
        Column("ts", "BIGINT", "When it was scheduled, by the process's own clock; do not compare processes.", "ns"),
        Column("tp_rank", "BIGINT", "Rank in the tensor-parallel group; NULL: the files do not say it."),
        Column("pp_rank", "BIGINT", "Pipeline stage; NULL: the files do not say it."),
        Column("dp_rank", "BIGINT", "Rank in the data-parallel group; NULL: the files do not say it."),
        Column("coll_func", "VARCHAR", "Operation (`AllReduce`); `Send` and `Recv` are point-to-point."),
        Column("seq", "BIGINT", "Sequence number in the communicator; NULL for point-to-point, and where it is lost."),
        Column("proxy_op", "BIGINT", "Number of the proxy operation in its file."),
        Column("channel_id", "BIGINT", "Channel."),
        Column("peer", "BIGINT", "The other end: its rank in the communicator."),
        Column("is_send", "BOOLEAN", "A send to `peer`; else a receive from it."),
        Column("n_steps", "BIGINT", "Steps it consists of.", "steps"),
        Column("steps_seen", "BIGINT", "Steps of which something is in the file.", "steps"),
        Column("trans_bytes", "BIGINT", "Bytes of the transfer.", "bytes"),
        Column(
            "duration_ns", "BIGINT", "From its scheduling to its end; shorter than on other ranks: begun late.", "ns"
        ),
        Column("send_gpu_wait_ns", "BIGINT", "The proxy waited for data of its own GPU; high: this GPU is late.", "ns"),
        Column("send_peer_wait_ns", "BIGINT", "It waited for credit of the receiver.", "ns"),
        Column("send_wait_ns", "BIGINT", "It waited for the network.", "ns"),
        Column("recv_wait_ns", "BIGINT", "It waited for data of the sender.", "ns"),
        Column("recv_flush_wait_ns", "BIGINT", "It waited for the flush of received data.", "ns"),
        Column("recv_gpu_wait_ns", "BIGINT", "It waited for its own GPU to take the data.", "ns"),
        Column("complete", "BOOLEAN", "The file holds its end."),
    ),
)

COLL_PERF = Table(
    "nccl",
    "coll_perf",
    "one collective (or send, or receive) of one rank",
    "How long NCCL's operations took on each rank, from NCCL Inspector. Who comes last waits least: of one collective "
    "the shortest time is that of the communication, the rest is waiting for the last to come.",
    (
        *_COMM,
        *_PROCESS,
        Column("n_nodes", "BIGINT", "Hosts of the communicator.", "hosts"),
        Column("comm_name", "VARCHAR", "Name of the communicator, where the program gave one."),
        Column("dumped_ns", "BIGINT", "When Inspector wrote it down, by that host's clock.", "ns since epoch"),
        Column("started_ns", "BIGINT", "When it began, by that host's clock; only in verbose dumps.", "ns since epoch"),
        Column("coll_func", "VARCHAR", "Operation (`AllReduce`); `Send` and `Recv` are point-to-point."),
        Column("seq", "BIGINT", "Sequence number in the communicator; point-to-point counts by itself."),
        Column("is_p2p", "BOOLEAN", "Point-to-point."),
        Column("peer", "BIGINT", "The other end of point-to-point: its rank in the communicator."),
        Column("msg_size_bytes", "BIGINT", "Size of the message.", "bytes"),
        Column("exec_time_ns", "BIGINT", "How long it took on this rank.", "ns"),
        Column("timing_source", "VARCHAR", "`kernel_gpu`, `kernel_cpu` or `collective_cpu`; NULL: older Inspectors."),
        Column("algobw", "DOUBLE", "Bandwidth of the algorithm: size by time.", "GB/s"),
        Column("busbw", "DOUBLE", "Bandwidth of the bus: what links carry, comparable with the hardware.", "GB/s"),
        Column("algorithm", "VARCHAR", "Algorithm of NCCL (`RING`, `TREE`)."),
        Column("protocol", "VARCHAR", "Protocol of NCCL (`LL`, `LL128`, `SIMPLE`)."),
    ),
)
