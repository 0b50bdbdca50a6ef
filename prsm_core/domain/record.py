"""Record: what every value of the domain is, a frozen struct.

A step is made of dozens of values, and a run of thousands of steps. A frozen dataclass sets its
fields one by one through `object.__setattr__`; a struct is built in C, and so is its class. What
works on dataclasses works on records as well: `replace`, `fields`, `asdict`, `is_dataclass`.
"""

from __future__ import annotations

import inspect
from dataclasses import MISSING, Field, field, make_dataclass
from functools import cache
from typing import Any, ClassVar, dataclass_transform

import msgspec


class _Fields:
    """The fields of a record as `dataclasses` asks for them."""

    def __get__(self, record: Record | None, kind: type[Record]) -> dict[str, Field[Any]]:
        fields: dict[str, Field[Any]] = _twin(kind).__dataclass_fields__  # type: ignore[attr-defined]
        return fields


@dataclass_transform(kw_only_default=False, field_specifiers=(msgspec.field,))
class _Kind(msgspec.StructMeta):
    """The type of records, which tells what they take without importing what their fields hold."""

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature: names, defaults, and annotations as they are written."""
        return inspect.signature(_twin(self))


class Record(msgspec.Struct, frozen=True, metaclass=_Kind):
    """An immutable value that equals another one with the same fields.

    A subclass repeats `frozen=True`, with `kw_only=True` where its fields are given by name. One
    that holds nothing but plain values, JSON and others of its sort says `gc=False`: none of these
    leads back to it, so that the garbage collector need not walk through it.
    """

    __dataclass_fields__: ClassVar[Any] = _Fields()


class Labelled(Record, frozen=True, eq=False):
    """A record with fields that only label it: whether it equals another one is told without them.

    A subclass says `eq=False` again, and names these fields.
    """

    _labels: ClassVar[frozenset[str]] = frozenset()

    def _compared(self) -> tuple[Any, ...]:
        names = (name for name in self.__struct_fields__ if name not in self._labels)
        return tuple(getattr(self, name) for name in names)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared())


@cache
def _twin(kind: Any) -> type:
    """Return the dataclass with a record's fields; made once somebody asks, as few ever do."""
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    given = (msgspec.NODEFAULT,) * (len(names) - len(defaults)) + defaults
    by_place = set(kind.__match_args__)
    hints = {
        name: hint
        for one in kind.__mro__
        for name, hint in vars(one).get("__annotations__", {}).items()
    }
    labels = kind._labels if issubclass(kind, Labelled) else frozenset()
    shape = []
    for name, default in zip(names, given, strict=True):
        one = _field(default, kw_only=name not in by_place, compare=name not in labels)
        shape.append((name, hints[name], one))
    return make_dataclass(kind.__name__, shape)


def _field(default: Any, **told: Any) -> Any:
    factory = getattr(default, "factory", MISSING)  # how a struct keeps a default_factory
    if factory is not MISSING:
        return field(default_factory=factory, **told)
    return field(**told) if default is msgspec.NODEFAULT else field(default=default, **told)
