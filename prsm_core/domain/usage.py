"""Token counts, as far as a provider tells them."""

from __future__ import annotations

from dataclasses import dataclass, fields


def _add(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    return a if b is None else a + b


def _sub(a: int | None, b: int | None) -> int | None:
    return a if a is None or b is None else a - b


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Tokens of one report, one turn or a whole subtree; None means unknown, never zero.

    A sum takes what is known: adding an unknown count leaves the other as it is.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    total_tokens: int | None = None

    def __add__(self, other: TokenUsage) -> TokenUsage:
        """Return the field-wise sum of what is known."""
        return TokenUsage(
            **{name: _add(getattr(self, name), getattr(other, name)) for name in _NAMES}
        )

    def __sub__(self, other: TokenUsage) -> TokenUsage:
        """Return the field-wise difference; what is unknown in `self` stays unknown."""
        return TokenUsage(
            **{name: _sub(getattr(self, name), getattr(other, name)) for name in _NAMES}
        )

    def to_dict(self) -> dict[str, int | None]:
        """Return the counts by name, unknown ones as None."""
        return {name: getattr(self, name) for name in _NAMES}


_NAMES = tuple(f.name for f in fields(TokenUsage))
