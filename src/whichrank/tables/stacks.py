"""Where processes stand: their Python stacks, their threads as the kernel sees them, and what the kernel logged."""

from __future__ import annotations

from whichrank.tables.spec import ORIGIN, PLACE, Column, Table

BACKTRACE = Table(
    "python",
    "backtrace",
    "one frame of one thread at one look",
    "Python stacks of the processes of a job, from py-spy, faulthandler or torch.distributed.debug.",
    (
        *ORIGIN,
        *PLACE,
        Column("source", "VARCHAR", "`process` (a running one was looked at) or `file`."),
        Column("path", "VARCHAR", "File it was read from; NULL for a process."),
        Column("sample", "BIGINT", "Which look at the process: 0 is the first of its file or collection."),
        Column("taken_ns", "BIGINT", "When it was taken, or the file written, by that host's clock.", "ns since epoch"),
        Column("pid", "BIGINT", "Process id on its host; NULL where the text does not say it."),
        Column("thread", "BIGINT", "Position of the thread in the dump; counts from 0."),
        Column("os_thread_id", "BIGINT", "The kernel's number of the thread; NULL where the text does not say it."),
        Column("thread_name", "VARCHAR", "Name of the thread (`MainThread`)."),
        Column("is_main", "BOOLEAN", "The main thread, which runs the training script."),
        Column("active", "BOOLEAN", "On a CPU just then; NULL where the text does not say it."),
        Column("owns_gil", "BOOLEAN", "Holds the global interpreter lock; NULL where the text does not say it."),
        Column("depth", "BIGINT", "0 is the innermost frame; NULL for a thread without frames."),
        Column("frame_type", "VARCHAR", "`Python` or `Native`."),
        Column("func", "VARCHAR", "Function, without its class."),
        Column("file", "VARCHAR", "Source file, or library of a native frame."),
        Column("lineno", "BIGINT", "Line; NULL where there is none."),
    ),
)

CPU = Table(
    "cpu",
    "cpu_utilization",
    "one process or thread at one look",
    "Processes of a job, their children (data workers) and threads, as the kernel sees them.",
    (
        *ORIGIN,
        *PLACE,
        Column("ts", "BIGINT", "When it was taken, by the clock of that host.", "us since epoch"),
        Column("sample", "BIGINT", "Which look at the process: 0 is the first of its collection."),
        Column("scope", "VARCHAR", "`process`, `thread` or `child` (a process below the rank's)."),
        Column("pid", "BIGINT", "Process id on its host."),
        Column("os_thread_id", "BIGINT", "The kernel's number of the thread; NULL for a process."),
        Column("comm", "VARCHAR", "Name of the process or thread."),
        Column("state", "VARCHAR", "R running, S asleep, D uninterruptible (I/O), T stopped, t traced, Z a zombie."),
        Column("wchan", "VARCHAR", "Kernel function it waits in; NULL where the kernel does not tell."),
        Column("cpu_time_s", "DOUBLE", "CPU time so far, user and system.", "s"),
        Column("rss_kb", "BIGINT", "Resident memory; only of processes.", "KiB"),
    ),
    shown_as="utilization",
)

KMSG = Table(
    "process",
    "kmsg",
    "one line of a kernel log",
    "Kernel messages that explain a hang: GPU errors (Xid), the OOM killer, InfiniBand, blocked tasks, file servers.",
    (
        *ORIGIN,
        *PLACE,
        Column("path", "VARCHAR", "File it was read from (`/dev/kmsg`, output of dmesg)."),
        Column("timestamp", "BIGINT", "When, if the log tells the time of day.", "ns since epoch"),
        Column("boot_s", "DOUBLE", "When, since the start of the host.", "s"),
        Column("level", "VARCHAR", "Level, as the kernel names it (`err`, `warn`); NULL where the text has none."),
        Column("kind", "VARCHAR", "`xid`, `oom`, `infiniband`, `blocked_task`, `file_server`, `segfault`, `gpu`."),
        Column("device", "VARCHAR", "PCI address, port or server the line names."),
        Column("code", "BIGINT", "Number of the Xid."),
        Column("pid", "BIGINT", "Process the line names, by its number on the host."),
        Column("message", "VARCHAR", "The line, without its time."),
    ),
)
