"""Outlines and interfaces: what files define, without the bodies; a header in place of a text.

An outline is for who works in a region: all that is there, with lines, in 0.3 of the source. An
interface is for who builds upon it: no private names, no places, and of types every public member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_regions.symbols.definitions import HOLDERS, UnreadableError, cut, definitions, one_line
from prsm_regions.symbols.files import read
from prsm_regions.symbols.grammars import grammar_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prsm_regions.symbols.definitions import Definition

SHARE = 0.3  # of a source's bytes
MAX_FILE = 12_000  # bytes
MAX_REGION = 24_000
_INDENT = "  "
_SMALL = frozenset({"field", "variant", "variable", "constant", "macro"})


def outline(path: str, size: int, found: Sequence[Definition]) -> str:
    """Return the outline of a file of so many bytes: a line for each definition, with its line.

    It takes 0.3 of the source at most. Where more is defined, what is small goes first, then
    members, then what comes last; blank for a file that defines nothing.
    """
    limit = min(int(size * SHARE), MAX_FILE)
    lines = [(_line(one), one) for one in found if not is_local(one, found)]
    title = f"{path}\n"
    for keeps in (None, _is_large, _is_at_top):
        text = title + "\n".join(line for line, one in lines if keeps is None or keeps(one))
        if len(text.encode("utf-8", "replace")) <= limit:
            return text if lines else ""
    return _fitting(title, [line for line, one in lines if _is_at_top(one)], limit)


def outline_of_file(root: str, path: str, now_ns: int) -> str:
    """Return the outline of one file as it is now, blank where none can be made; blocks."""
    grammar, content = grammar_of(path), read(root, path, now_ns)
    if grammar is None or content is None or content.text is None:
        return ""
    try:
        return outline(path, len(content.text), definitions(content.text, grammar))
    except UnreadableError:
        return ""


def together(texts: Iterable[str]) -> str:
    """Return what is said of files, but blanks; those beyond 24 kB are counted."""
    shown: list[str] = []
    size = left = 0
    for text in filter(None, texts):
        size += len(text.encode("utf-8", "replace")) + 1
        if size > MAX_REGION - 100:
            left += 1
        else:
            shown.append(text)
    if left:
        shown.append(f"({left} files more; ask for what you need by its name)")
    return "\n".join(shown)


def is_local(one: Definition, found: Sequence[Definition]) -> bool:
    """Return whether it is inside of a function, where nobody else sees it."""
    if not one.scope:
        return False
    holder = one.scope.rpartition(".")[2]
    return (
        not any(
            other.name == holder and other.kind in HOLDERS and other.start <= one.start <= other.end
            for other in found
        )
        and one.kind != "method"
    )


def _is_large(one: Definition) -> bool:
    return one.kind not in _SMALL


def _is_at_top(one: Definition) -> bool:
    return not one.scope and _is_large(one)


def _line(one: Definition) -> str:
    return f"{_indent(one)}{one.start}: {_signature(one)}"


def _fitting(title: str, lines: Sequence[str], limit: int) -> str:
    """Return as many lines as fit, and how many do not; blank where not even one fits."""
    room = limit - len(title.encode("utf-8", "replace")) - 20
    kept: list[str] = []
    for line in lines:
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0:
            break
        kept.append(line)
    if not kept:
        return ""
    return cut(title + "\n".join([*kept, f"({len(lines) - len(kept)} more)"]), limit)


def interface(path: str, found: Sequence[Definition]) -> str:
    """Return the signatures of a file that are not private in its language, 12 kB at most."""
    grammar = grammar_of(path)
    if grammar is None:
        return ""
    shows = _SHOWS[grammar.query]
    hidden = {_whole(one) for one in found if not shows(one, found)}
    lines = [
        f"{_indent(one)}{_signature(one)}"
        for one in found
        if not is_local(one, found) and not _is_hidden(_whole(one), hidden)
    ]
    return cut("\n".join([path, *lines]), MAX_FILE) if lines else ""


def _whole(one: Definition) -> str:
    return f"{one.scope}.{one.name}" if one.scope else one.name


def _is_hidden(name: str, hidden: set[str]) -> bool:
    """Return whether a name, or what it is in, is private."""
    parts = name.split(".")
    return any(".".join(parts[: end + 1]) in hidden for end in range(len(parts)))


def _indent(one: Definition) -> str:
    return _INDENT * (one.scope.count(".") + 1) if one.scope else ""


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
