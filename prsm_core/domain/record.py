"""Record: what every value of the domain is, a frozen struct.

A run makes many thousands. A frozen dataclass sets fields one by one through `object.__setattr__`;
a struct and its class are built in C. `msgspec.structs` has `replace` and `asdict`.
"""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any, ClassVar, dataclass_transform

import msgspec


@dataclass_transform(kw_only_default=False, field_specifiers=(msgspec.field,))
class _Kind(msgspec.StructMeta):
    """The type of records, which tells what they take without importing what their fields hold."""

    @property
    def __signature__(self) -> Signature:
        """The signature: names, defaults, and annotations as they are written."""
        hints = {
            name: hint
            for base in self.__mro__
            for name, hint in vars(base).get("__annotations__", {}).items()
        }
        names, defaults = self.__struct_fields__, self.__struct_defaults__
        given = (msgspec.NODEFAULT,) * (len(names) - len(defaults)) + defaults
        parameters = [
            Parameter(
                name,
                Parameter.POSITIONAL_OR_KEYWORD
                if name in self.__match_args__
                else Parameter.KEYWORD_ONLY,
                default=Parameter.empty if default is msgspec.NODEFAULT else default,
                annotation=hints[name],
            )
            for name, default in zip(names, given, strict=True)
        ]
        return Signature(parameters)


class Record(msgspec.Struct, frozen=True, metaclass=_Kind):
    """An immutable value that equals another one with the same fields.

    A subclass repeats `frozen=True`, with `kw_only=True` if its fields are given by name. One that
    holds only plain values says `gc=False`: nothing leads back to it.
    """


class Labelled(Record, frozen=True, eq=False):
    """A record with fields that only label it: they do not take part in `==`.

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
