"""The root of the tree, and how its errors cross processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolrelay._text import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    Messages = Sequence[dict[str, Any]]


class ToolRelayError(Exception):
    """The root: `except ToolRelayError` catches whatever this library raises on purpose.

    `transcript` is the conversation as it stood, a history for any later run; None where no run had begun.
    """

    def __init__(self, message: str = "", *, transcript: Messages | None = None) -> None:
        super().__init__(message)
        self.transcript = transcript

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, dict(self.__dict__), _portable(self.__cause__))


def _rebuild(kind: type[ToolRelayError], args: tuple[Any, ...], fields: dict[str, Any], cause: Any) -> ToolRelayError:
    """The inverse of `__reduce__`: no `__init__`, so subclasses may have any signature."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    if cause is not None:
        error.__cause__ = cause
    return error


def _portable(cause: Any) -> Any:
    """The cause if it survives pickling; otherwise an error that has its type's name and text."""
    import pickle

    try:
        pickle.loads(pickle.dumps(cause))  # noqa: S301 - these bytes are ours
    except Exception:  # noqa: BLE001 - a cause may refuse in any way
        return ToolRelayError(describe(cause))
    return cause
