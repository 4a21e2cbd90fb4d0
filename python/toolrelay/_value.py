"""What the plain values of this package share: equality, a readable repr, and JSON twins.

This module owns no value. The methods are written once here rather than generated per class, which is
what makes frozen slotted dataclasses slow to import (0.4 ms each; with `value` below 0.05 ms).
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

from toolrelay._json import decode, encode
from toolrelay.errors import PayloadError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True)
def value(declared: type[_T]) -> type[_T]:
    """A frozen dataclass with slots, for subclasses of `Value` that write their own `__init__`."""
    return dataclass(init=False, repr=False, eq=False, slots=True)(declared)


class Value:
    """Its first field identifies it well enough for a hash. `__init__` sets the fields with `put`."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash((type(self), getattr(self, self.__slots__[0])))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, name) for name in self.__slots__)

    def __setattr__(self, name: str, item: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


class JsonValue(Value):
    """A value with a JSON form that reads back as an equal value."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as a dict of the caller's own; an absent optional is left out."""
        return self._form()

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`. Raises `PayloadError` naming the key."""
        return cls._read(value)

    def to_json(self) -> bytes:
        """The JSON form as compact UTF-8."""
        return encode(self._form()).encode()

    @classmethod
    def from_json(cls, text: str | bytes | bytearray) -> Self:
        """The inverse of `to_json`. Raises `PayloadError` for what is not such JSON."""
        try:
            value = decode(text)
        except ValueError as error:
            raise PayloadError(f"not JSON: {error}", key="") from error
        return cls._read(value)

    def _form(self) -> dict[str, Any]:
        raise NotImplementedError

    @classmethod
    def _read(cls, value: Mapping[str, Any]) -> Self:
        raise NotImplementedError


put = object.__setattr__
