"""Errors a user can act on: what happened, where, what is probably so, what to type next.

Every error that a person's input can cause is a `WhichrankError`; it carries the exit code of the command line.
Anything else that escapes is a bug of ours and may show a traceback.
"""

from __future__ import annotations

EXIT_NOTHING_FOUND = 0
EXIT_FINDINGS = 1
EXIT_CANNOT_DIAGNOSE = 2
EXIT_USAGE = 64


class WhichrankError(Exception):
    """A failure the user can mend.

    what:  one sentence: what did not work, and where.
    looked_for: what we expected to find there (None when that is obvious from `what`).
    next: a command, or an action, that probably helps.
    """

    exit_code = EXIT_CANNOT_DIAGNOSE

    def __init__(self, what: str, *, looked_for: str | None = None, next: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.looked_for = looked_for
        self.next = next

    def as_dict(self) -> dict[str, str | None]:
        """The machine-readable form (`--json`, MCP): keys `error`, `looked_for`, `next`."""
        return {"error": self.what, "looked_for": self.looked_for, "next": self.next}


class UsageError(WhichrankError):
    """The call itself is wrong: an unknown skill, a parameter of the wrong type."""

    exit_code = EXIT_USAGE


class NoEvidence(WhichrankError):
    """The path is missing, or nothing in it can be read as evidence."""


class NoRoom(WhichrankError):
    """The evidence fits neither into memory nor into the folder for temporary files."""


class BrokenPack(WhichrankError):
    """A manifest, a skill or a statement of the pack contradicts the tables: an author's mistake, said at load time."""


class QueryRefused(WhichrankError):
    """A statement that the guard does not run."""


class QueryFailed(WhichrankError):
    """A statement that DuckDB could not run to its end (syntax, types, time or memory limit)."""


class ShardGone(QueryFailed):
    """A shard was removed while it was being read (`--keep N`): opening the store again helps."""
