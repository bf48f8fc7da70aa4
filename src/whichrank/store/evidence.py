"""Evidence: one DuckDB in which `python.*` and `global.python.*` stand, wherever the rows came from.

Layers, all in memory:
    global.shard.<table>    the stored columns: rows of dumps (a table), shards of stores (a view), or both
    global.python.<table>   the public view of every rank, with `_host` and `_rank`
    python.<table>          the same view of this host's rows; a dump does not say its host and counts as ours
    facts.<name>            made by the engine

A compacted store (`STORE/global.duckdb`) holds `shard.<table>` as tables; it is attached READ_ONLY as `compacted`.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from whichrank.batch import Batch
from whichrank.errors import NoEvidence, NoRoom, ShardGone
from whichrank.store.compacted import FACTS, Beside, compare, known_to, listed
from whichrank.store.ddl import (
    COMPACTED,
    compacted_table,
    parquet,
    parquet_files,
    quote,
    schemas,
    shard_table,
    shard_view,
)
from whichrank.tables import DUMP, FLIGHT_RECORD, LOOKUPS, TABLES, Table, by_name, view_ddl

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_CONFIG: dict[str, Any] = {
    # Nothing is fetched from anywhere: what we need is built in.
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": tempfile.gettempdir(),
}
_SETTINGS = (
    "SET enable_progress_bar = false",
    # A shard never changes once it has its name, so its footer is read once: with thousands of files half the time.
    "SET parquet_metadata_cache = true",
    "SET validate_external_file_cache = 'NO_VALIDATION'",
)
_ROWS_AT_ONCE = 128_000  # an insert costs a millisecond whatever its size; so many entries are 15 MB
# Rows of entries repeat each other: packed they take an eighth. Packing a million takes 1.5 s of processor time, and
# memory meanwhile, so a job that has room enough (a million rows are 300 MB) does without.
_ROWS_TO_PACK = 2_500_000


class Evidence:
    """Rows of every table over dumps (as batches) and stores. A context manager; closing it frees the memory.

    batches: rows to hold in memory; consumed once, lookups de-duplicated.
    stores:  folders of shards, or global.duckdb files.
    host:    whose rows `python.*` shows; this machine's name by default.
    comments: COMMENT ON for every view and column (an agent reads them; a diagnosis does without).
    lazy:     make views of a table only when `show`, `load` or `count` name it; each costs milliseconds.
    """

    def __init__(
        self,
        batches: Iterable[Batch] = (),
        *,
        stores: Sequence[Path] = (),
        host: str | None = None,
        comments: bool = False,
        lazy: bool = False,
    ) -> None:
        import duckdb

        self.stores = tuple(stores)
        self.host = host or socket.gethostname()
        self.connection: duckdb.DuckDBPyConnection = duckdb.connect(":memory:", config=_CONFIG)
        self._seen: dict[str, set[int]] = {table.name: set() for table in LOOKUPS.values()}
        self._in_memory: dict[str, int] = {}  # table -> rows
        self._elsewhere: dict[str, int] = {}  # table -> rows that lie in the memory of a cluster
        self._loaded: set[str] = set()
        self._lent: set[str] = set()  # facts that are views of those in a compacted file
        self._shown: set[str] = set()
        self._comments = comments
        self._beside: dict[Path, Beside] = {}  # of stores whose compacted file says which shards it holds
        try:
            self._open(batches)
            if not lazy:
                self.show()
        except duckdb.OutOfMemoryException as error:
            self.connection.close()
            raise NoRoom(
                f"the evidence needs more room than there is: {str(error).splitlines()[0]}",
                looked_for=f"memory, and room for what does not fit into it in {_CONFIG['temp_directory']}",
                next="TMPDIR=/a/larger/disk whichrank …, or the dumps of fewer ranks",
            ) from None
        except BaseException:
            self.connection.close()
            raise

    def _open(self, batches: Iterable[Batch]) -> None:
        run = self.connection.execute
        for statement in (*_SETTINGS, *schemas(compressed=True)):
            run(statement)
        run("SET preserve_insertion_order = false")  # twice as fast, and no table has an order
        self._insert(batches)  # may add shards to a store, so the file is attached and the folder listed afterwards
        self._attach_compacted()
        run("RESET preserve_insertion_order")
        self._dump_shards = [path for s in self.stores for path in s.glob(f"{DUMP.name}/*/*.parquet")]

    # ---- rows of dumps -------------------------------------------------------------------------------------------
    def add(self, batches: Iterable[Batch]) -> None:
        """More rows, held in memory, in place of those that lay elsewhere."""
        for name in self._elsewhere:
            if not self.stores and name in self._shown and name not in self._in_memory:
                self.connection.execute(f"DROP VIEW global.shard.{name}")  # a table takes its place
        self._elsewhere.clear()
        self._insert(batches)

    def held(self, table: Table) -> pa.Table | None:
        """The rows of a table that are held in memory; None where there are none."""
        if not self._in_memory.get(table.name):
            return None
        return self.connection.table(self._memory_name(table)).to_arrow_table()

    def stand_in(self, table: Table, rows: int) -> None:
        """Count rows that lie elsewhere: evidence that is there, although nobody can read it here."""
        self._elsewhere[table.name] = rows

    def _insert(self, batches: Iterable[Batch]) -> None:
        waiting: dict[str, list[pa.Table]] = {}
        held = loose = 0  # rows that wait, and that are not packed
        for batch in batches:
            for name, rows in batch.tables.items():
                waiting.setdefault(name, []).append(rows)
                held += rows.num_rows
            if held >= _ROWS_AT_ONCE:
                self._flush(waiting)
                held, loose = 0, loose + held
                if loose > _ROWS_TO_PACK:
                    self.connection.execute("CHECKPOINT global")
                    loose = 0
        self._flush(waiting)

    def _flush(self, waiting: dict[str, list[pa.Table]]) -> None:
        import pyarrow as pa

        for name, parts in waiting.items():
            table = by_name(name)
            assert table is not None, f"a collector made rows of an unknown table {name}"
            rows = pa.concat_tables(parts).select([column.name for column in table.stored])
            if table.key:
                rows = self._unseen(table, rows)
            if name not in self._in_memory:
                self.connection.execute(shard_table(table, self._memory_name(table)))
                self._in_memory[name] = 0
            self._in_memory[name] += rows.num_rows
            if rows.num_rows:
                self.connection.from_arrow(rows).insert_into(self._memory_name(table))
        waiting.clear()

    def _unseen(self, table: Table, rows: pa.Table) -> pa.Table:
        """The rows of a lookup whose key was not there yet: every dump of a job brings the same stacks."""
        import pyarrow as pa

        assert table.key is not None
        seen = self._seen[table.name]
        runs: list[tuple[int, int]] = []  # slices, because take() would import pyarrow.compute, 0.1 s
        for index, key in enumerate(rows.column(table.key).to_pylist()):
            if key in seen:
                continue
            seen.add(key)
            if runs and sum(runs[-1]) == index:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((index, 1))
        return pa.concat_tables([rows.slice(0, 0), *(rows.slice(start, length) for start, length in runs)])

    def _memory_name(self, table: Table) -> str:
        return f"global.{'dumps' if self.stores else 'shard'}.{table.name}"

    # ---- rows of stores ------------------------------------------------------------------------------------------
    def _sources(self, table: Table, placeholder: str | None = None) -> list[str]:
        """The relations that hold stored rows of `table`, as SQL. placeholder: the store to name in place of memory."""
        shards = [s for s in self.stores if s not in self._beside and any(s.glob(f"{table.name}/*/*.parquet"))]
        found = []
        for database, path in self._compacted():
            beside = self._beside.get(path.parent) if path not in self.stores else None
            if table.name in self._tables_of(database, with_rows=True):
                stale = beside.stale if beside else []
                found.append(compacted_table(table, database, stale))
            if beside:
                found += parquet_files([path.parent / s.path for s in beside.fresh if s.table == table.name])
        if placeholder is None:
            found += [f"global.dumps.{table.name}"] if table.name in self._in_memory else []
        elif self._in_memory.get(table.name):
            shards.append(Path(placeholder))
        return found + parquet(table, shards)

    def _compacted(self) -> Iterator[tuple[str, Path]]:
        files = [path for s in self.stores if (path := s if s.is_file() else s / COMPACTED).is_file()]
        for number, path in enumerate(files):
            yield f"compacted_{number}" if number else "compacted", path

    def _attach_compacted(self) -> None:
        import duckdb

        for name, path in self._compacted():
            try:
                self.connection.execute(f"ATTACH {quote(str(path))} AS {name} (READ_ONLY)")
            except duckdb.Error as error:
                why = str(error).splitlines()[0]
                raise NoEvidence(f"{path} cannot be opened: {why}", looked_for="a compacted store") from None
            store = path.parent
            known = known_to(self.connection, name) if store in self.stores else None
            if known is not None:
                self._beside[store] = compare(known, listed(store))

    def compacted_with(self, table: Table, store: Path) -> str | None:
        """The name of the attached file of that store if it holds the table, or None."""
        for name, path in self._compacted():
            if path == store / COMPACTED and store in self._beside and table.name in self._tables_of(name):
                return name
        return None

    @cached_property
    def facts_held(self) -> dict[str, str]:
        """Facts that the compacted file holds of exactly the rows that are here: id -> what they were made by."""
        files = list(self._compacted())
        if len(files) != 1 or len(self.stores) != 1 or self._in_memory or self._elsewhere:
            return {}
        (database, path) = files[0]
        compared = self._beside.get(path.parent)
        if (compared and compared.fresh) or FACTS not in self._tables_of(database):
            return {}
        return dict(self.connection.table(f"{database}.shard.{FACTS}").project("id, recipe").fetchall())

    def lend(self, fact: str) -> int:
        """Let a fact be the one that stands in the compacted file; returns its rows."""
        (database, _) = next(self._compacted())
        self.connection.execute(f"CREATE OR REPLACE VIEW {fact} AS FROM {database}.{fact}")
        self._lent.add(fact)
        return int(self.connection.table(fact).count("*").fetchall()[0][0])

    def take_back(self, facts: Iterable[str]) -> None:
        """Make room for facts that are to be made here."""
        for fact in self._lent.intersection(facts):
            self.connection.execute(f"DROP VIEW {fact}")
            self._lent.remove(fact)

    def read_only_from(self, database: str) -> None:
        """From now on every view shows the tables of this attached file, and nothing else."""
        for table in TABLES:
            self.connection.execute(shard_view(table, [f"{database}.shard.{table.name}"]))
        for statement in self.views():
            self.connection.execute(statement)
        self._shown |= {table.name for table in TABLES}

    def beside(self, store: Path) -> Beside | None:
        """How the compacted file of a store compares with its folder; None: there is none, or it is not ours."""
        return self._beside.get(store)

    def _tables_of(self, database: str, *, with_rows: bool = False) -> set[str]:
        """Its tables. with_rows: a compacted file has every table there is, also those of which it holds nothing."""
        names = self.connection.table_function("duckdb_tables").filter(
            f"database_name = {quote(database)} AND schema_name = 'shard'" + " AND estimated_size > 0" * with_rows
        )
        return {row[0] for row in names.project("table_name").fetchall()}

    # ---- what stands above the shards ----------------------------------------------------------------------------
    def show(self, names: Iterable[str] | None = None) -> None:
        """Make the views of these tables, and of the lookups they need; of all for None."""
        wanted = _with_lookups(TABLES if names is None else [t for name in names if (t := by_name(name))])
        new = [table for table in wanted if table.name not in self._shown]
        self._shown |= {table.name for table in new}
        for table in new:
            if table.name not in self._in_memory or self.stores:
                self.connection.execute(shard_view(table, self._sources(table)))
        for statement in self.views(new, comments=self._comments):
            self.connection.execute(statement)

    def views(self, tables: Iterable[Table] = TABLES, *, comments: bool = False) -> Iterator[str]:
        """DDL of `global.python.*` and `python.*` over `global.shard.*`, for these tables."""
        lookups = {via: f"global.shard.{table.name}" for via, table in LOOKUPS.items()}
        for table in tables:
            shard = f"global.shard.{table.name}"
            ours = shard if table.key else f"(FROM {shard} WHERE host IS NULL OR host = {quote(self.host)})"
            for view, source in ((f"global.{table.full_name}", shard), (table.full_name, ours)):
                for statement in view_ddl(table, view, source, lookups):
                    if comments or not statement.startswith("COMMENT"):
                        yield statement

    def prelude(self, names: Iterable[str], placeholder: str = "STORE", *, use_global: bool = False) -> list[str]:
        """DDL that gives a bare DuckDB client the views of these tables (`python.torch_nccl_dump`) over the shards.

        placeholder: the folder to name where the rows came from dumps and lie in no store.
        use_global: only `global.*` is needed. Where a compacted file holds all of it, the file is all there is to do.
        """
        files = list(self._compacted())
        if use_global and len(files) == len(self.stores) == 1 and not self._in_memory:
            compared = self._beside.get(files[0][1].parent)
            if compared and not compared.fresh:
                # Not READ_ONLY: that is an error in a client that was started on this very file, to write facts into.
                whole = f"ATTACH IF NOT EXISTS {quote(str(files[0][1]))} AS global"
                return [whole, "CREATE SCHEMA IF NOT EXISTS facts"]
        wanted = _with_lookups(table for name in names if (table := by_name(name)))
        attach = [f"ATTACH {quote(str(path))} AS {name} (READ_ONLY)" for name, path in self._compacted()]
        shards = [shard_view(table, self._sources(table, placeholder)) for table in wanted]
        return [*schemas(), *attach, *shards, *self.views(wanted)]

    @property
    def holds_dumps(self) -> bool:
        """Whether rows were read from dumps, which lie in no store."""
        return bool(self._in_memory or self._elsewhere)

    @cached_property
    def present(self) -> frozenset[str]:
        """The tables for which there are rows, or at least shards: `python.torch_nccl_dump`."""
        there = (table for table in TABLES if table.name in self._elsewhere or self._sources(table, "STORE"))
        return frozenset(table.full_name for table in there)

    def count(self, name: str) -> int:
        """Rows of `global.<name>` (`python.torch_nccl_dump`); 0 for a table that does not exist."""
        table = by_name(name)
        if table is None:
            return 0
        elsewhere = self._elsewhere.get(table.name, 0)
        if not self.stores:
            return self._in_memory.get(table.name, 0) + elsewhere
        with _shards_that_stay():
            self.show([table.name])
            return int(self.connection.table(f"global.shard.{table.name}").count("*").fetchall()[0][0]) + elsewhere

    def load(self, names: Iterable[str], *, entries: bool = True) -> None:
        """Copy tables of shards and their lookups into memory: read once, and readable with the file system shut.

        entries: also the Flight Recorder entries, which are more than all the rest together.
        """
        wanted = _with_lookups(table for name in names if (table := by_name(name)))
        with _shards_that_stay():
            self.show(table.name for table in wanted)
            self._load(table for table in wanted if entries or table is not FLIGHT_RECORD)

    def check_nothing_went(self) -> None:
        """Raises ShardGone where a snapshot was removed since we opened the store: what was read of it may be a part.

        Whoever removes a snapshot removes its shards of torch_nccl_dump first.
        """
        for path in self._dump_shards:
            if not path.exists():
                raise ShardGone(f"{path} was removed while the store was read", looked_for="all that was listed")

    def _load(self, tables: Iterable[Table]) -> None:
        for table in tables:
            if not self.stores or table.name in self._loaded:
                continue
            copy = f"global.dumps.{table.name}_loaded"
            self.connection.execute("SET preserve_insertion_order = false")
            self.connection.execute(f"CREATE OR REPLACE TABLE {copy} AS FROM global.shard.{table.name}")
            self.connection.execute("RESET preserve_insertion_order")
            self.connection.execute(shard_view(table, [copy]))
            self._loaded.add(table.name)

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Evidence:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


@contextmanager
def _shards_that_stay() -> Iterator[None]:
    """Raises ShardGone where a shard is removed before it was read."""
    import duckdb

    try:
        yield
    except duckdb.IOException as error:
        raise ShardGone(str(error).splitlines()[0], looked_for="the shards of the store, as they were listed") from None


def _with_lookups(tables: Iterable[Table]) -> list[Table]:
    """The tables, each once, the lookups they need first."""
    wanted = list(tables)
    return list(dict.fromkeys([*(LOOKUPS[via] for table in wanted for via in table.lookups), *wanted]))
