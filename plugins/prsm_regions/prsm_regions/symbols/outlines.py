"""Outlines: what files define, without the bodies; a header in place of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_regions.symbols.definitions import HOLDERS, UnreadableError, cut, definitions, one_line
from prsm_regions.symbols.files import read
from prsm_regions.symbols.grammars import grammar_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    for keeps in (_all, _no_small, _no_members):
        text = title + "\n".join(line for line, one in lines if keeps(one))
        if len(text.encode("utf-8", "replace")) <= limit:
            return text if lines else ""
    return _fitting(title, [line for line, one in lines if _no_members(one)], limit)


def outline_of_file(root: str, path: str, now_ns: int) -> str:
    """Return the outline of one file as it is now, blank where none can be made; blocks."""
    grammar, content = grammar_of(path), read(root, path, now_ns)
    if grammar is None or content is None or content.text is None:
        return ""
    try:
        return outline(path, len(content.text), definitions(content.text, grammar))
    except UnreadableError:
        return ""


def outline_of_region(files: Iterable[tuple[str, int, Sequence[Definition]]]) -> str:
    """Return the outlines of files, by path; those beyond 24 kB are counted."""
    return together(outline(path, length, found) for path, length, found in files)


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


def _all(_: Definition) -> bool:
    return True


def _no_small(one: Definition) -> bool:
    return one.kind not in _SMALL


def _no_members(one: Definition) -> bool:
    return not one.scope and one.kind not in _SMALL


def _line(one: Definition) -> str:
    head = one.text.partition("\n    ")[0] if one.kind in HOLDERS else one.text
    depth = one.scope.count(".") + 1 if one.scope else 0
    return f"{_INDENT * depth}{one.start}: {one_line(head)}"


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
