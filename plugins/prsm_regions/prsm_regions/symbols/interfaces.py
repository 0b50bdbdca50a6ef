"""Interfaces: of what files define, what others may use; for who builds upon a region.

An outline is for who works in a region: all that is there, with lines, in 0.3 of the source. An
interface has no private names, no places, and of types every public member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_regions.symbols.definitions import HOLDERS, cut, one_line
from prsm_regions.symbols.grammars import grammar_of
from prsm_regions.symbols.outlines import MAX_FILE, is_local, together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prsm_regions.symbols.definitions import Definition

_INDENT = "  "


def interface(path: str, found: Sequence[Definition]) -> str:
    """Return the signatures of a file that others may use, 12 kB at most; blank without any.

    What is private is so by the language's own marks, in the name or before it; where a language
    has none that a definition shows, all is public.
    """
    grammar = grammar_of(path)
    if grammar is None:
        return ""
    shows = _SHOWS[grammar.query]
    hidden = {_whole(one) for one in found if not shows(one, found)}
    lines = [
        f"{_INDENT * _depth(one)}{_signature(one)}"
        for one in found
        if not is_local(one, found) and not _is_hidden(_whole(one), hidden)
    ]
    return cut("\n".join([path, *lines]), MAX_FILE) if lines else ""


def interface_of_region(files: Iterable[tuple[str, Sequence[Definition]]]) -> str:
    """Return the interfaces of files, by path; those beyond 24 kB are counted."""
    return together(interface(path, found) for path, found in files)


def _whole(one: Definition) -> str:
    return f"{one.scope}.{one.name}" if one.scope else one.name


def _is_hidden(name: str, hidden: set[str]) -> bool:
    """Return whether a name, or what it is in, is private."""
    parts = name.split(".")
    return any(".".join(parts[: end + 1]) in hidden for end in range(len(parts)))


def _depth(one: Definition) -> int:
    return one.scope.count(".") + 1 if one.scope else 0


def _signature(one: Definition) -> str:
    """Return a definition without its members, which have lines of their own."""
    return one_line(one.text.partition("\n    ")[0] if one.kind in HOLDERS else one.text)


def _by_underscore(one: Definition, _: Sequence[Definition]) -> bool:
    is_dunder = one.name.startswith("__") and one.name.endswith("__")
    return is_dunder or not one.name.startswith("_")


def _by_capital(one: Definition, _: Sequence[Definition]) -> bool:
    return one.name[:1].isupper()


def _by_pub(one: Definition, found: Sequence[Definition]) -> bool:
    """Return whether Rust says `pub`; members of traits, and what implements one, need none."""
    if one.kind in {"impl", "variant", "macro"} or one.text.startswith("pub"):
        return True
    return any(
        _whole(other) == one.scope
        and other.start <= one.start <= other.end
        and (other.kind == "trait" or (other.kind == "impl" and " for " in other.text))
        for other in found
    )


def _by_private(one: Definition, _: Sequence[Definition]) -> bool:
    """Return whether a member is not named as private, nor said to be."""
    before = one.text[: one.text.find(one.name)].split()
    return not one.name.startswith("#") and "private" not in before


def _by_static(one: Definition, _: Sequence[Definition]) -> bool:
    """Return whether others may link to it: in C what is static at the top is of its file alone."""
    return bool(one.scope) or not one.text.startswith("static ")


_SHOWS: dict[str, Callable[[Definition, Sequence[Definition]], bool]] = {
    "python": _by_underscore,
    "javascript": _by_private,
    "typescript": _by_private,
    "go": _by_capital,
    "rust": _by_pub,
    "java": _by_private,
    "c": _by_static,
    "cpp": _by_static,
}
