"""Values that people set and statements bind: their types, how they are read, how they look in SQL."""

from __future__ import annotations

from dataclasses import dataclass

from whichrank.errors import UsageError

Value = bool | int | float | str | None
TYPES = {"integer": "BIGINT", "boolean": "BOOLEAN", "double": "DOUBLE", "text": "VARCHAR"}
_EXAMPLES = {"integer": "200", "boolean": "true", "double": "0.5", "text": "word"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value a statement binds as `$name`. type: integer, boolean, double or text; default None is NULL."""

    name: str
    type: str
    default: Value
    doc: str

    @property
    def sql_type(self) -> str:
        return TYPES[self.type]

    def parse(self, given: object) -> Value:
        """`given` (text of a command line, or a JSON value) as a value of this type. Raises UsageError."""
        try:
            return _parse(self.type, given)
        except ValueError:
            raise UsageError(
                f"parameter {self.name}: {given!r} is not of type {self.type}",
                looked_for=f"{self.doc} (default {literal(self.default)})",
                next=f"--param {self.name}={_EXAMPLES[self.type]}",
            ) from None


def _parse(type_: str, given: object) -> Value:
    text = str(given).strip()
    if given is None or text.lower() == "null":
        return None
    if type_ == "boolean":
        if text.lower() in ("true", "1", "yes", "on"):
            return True
        if text.lower() in ("false", "0", "no", "off"):
            return False
        raise ValueError(text)
    if type_ == "integer":
        if isinstance(given, bool | float):
            raise ValueError(text)
        return int(text)
    return float(text) if type_ == "double" else text


def literal(value: Value) -> str:
    """A value as SQL text."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
