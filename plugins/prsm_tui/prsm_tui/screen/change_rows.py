"""The changes of a session as rows of a list, and what is said about one of them: pure."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.style import Style

from prsm_tui.model.review import Change, Detail, Group, size_of
from prsm_tui.screen.wrapping import cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prsm_tui.model.comments import Comment

_PLAIN, _DIM = Style(), Style(dim=True)
_STYLES = {"conflict": Style(color="yellow", bold=True), "decided": _DIM, "pending": _PLAIN}
_PATH, _NAME, _STATE, _SIZE = 40, 16, 9, 10  # cells

Row = Group | Change


def rows_of(groups: Sequence[Group], by: str) -> Iterator[Row]:
    """Yield the groups, each before its changes; a file needs no line of its own."""
    for group in groups:
        if by != "file":
            yield group
        yield from group.changes


def head_of(group: Group, by: str) -> str:
    """Return what stands above a group."""
    first = group.changes[0]
    count = len(group.changes)
    what = f"{count} change{'' if count == 1 else 's'} {size_of(group.changes)}".rstrip()
    if by == "agent":
        return f"{first.who} · {what}"
    when = time.strftime("%H:%M:%S", time.localtime(min(one.at for one in group.changes)))
    return f"{first.who}, the turn of {when} · {what}"


def line_of(change: Change, width: int, path: int, *, is_indented: bool) -> str:
    """Return a change in one row: its sign and path, then lines, who, and its state.

    The longest path has `path` cells.
    """
    conflict = "!" if change.is_conflict else " "
    lead = f"{'  ' if is_indented else ''}{conflict} {change.mark} "
    right = [f"{size_of([change]):>{_SIZE}}"]
    if width >= _PATH + _NAME + _STATE:
        right.append(_padded(change.whose, _NAME))
    right.append(f"{change.state:<{_STATE}}")
    if width >= 2 * _PATH + _NAME:
        right.append(f"{change.how:<8}")
        right.append(time.strftime("%H:%M:%S", time.localtime(change.at)))
    tail = "  ".join(right)
    room = max(8, min(path, width - cell_len(lead) - cell_len(tail) - 2))
    return f"{lead}{_padded(_end_of(change.path, room), room)}  {tail}"


def _end_of(path: str, width: int) -> str:
    """Return the end of a path that fits: it tells more than the beginning."""
    if cell_len(path) <= width:
        return path
    start = next(n for n in range(len(path) + 1) if cell_len(path[n:]) < width)
    return f"…{path[start:]}"


def _padded(text: str, width: int) -> str:
    short = cut(text, width)
    return short + " " * (width - cell_len(short))


def style_of(change: Change) -> Style:
    """Return how the row of a change looks."""
    if not change.is_open:
        return _STYLES["decided"]
    return _STYLES["conflict" if change.is_conflict else "pending"]


def about(
    change: Change, detail: Detail | None, kept: Sequence[Comment], *, names_file: bool
) -> Iterator[str]:
    """Yield what is known of a change: whose it is, what is said of it, and why it was made.

    Of its comments those are `kept` that are not sent.
    """
    why = f": {change.why}" if change.why else ""
    file = f"{change.path} " if names_file else ""
    yield f"{file}by {change.whose} ({change.how}) · {change.state}{why}"
    if change.beside:
        yield f"conflict: {', '.join(change.beside)} changed the file, too"
    if kept:
        more = f" · and {len(kept) - 1} more" if len(kept) > 1 else ""
        yield f"not sent: {kept[-1].short}{more}"
    if detail is not None and detail.reason:
        yield f"why, as it {detail.said} before: {' '.join(detail.reason.split())}"


def why_of(change: Change, detail: Detail) -> str:
    """Return all of the reason of a change."""
    if not detail.reason:
        return f"{change.who} gave no reason that is known"
    return f"why, as {change.who} {detail.said} before: {detail.reason}"


def counted(changes: Sequence[Change]) -> str:
    """Return which changes these are, in words."""
    if len(changes) == 1:
        return f"the change of {changes[0].path} by {changes[0].whose}"
    files = len({one.path for one in changes})
    return f"{len(changes)} changes of {files} file{'' if files == 1 else 's'}"


def nothing(is_known: bool, shows_all: str) -> str:
    """Return what to say of no changes; `shows_all`, the key for those decided, blank: all are."""
    if not is_known:
        return "the changes are on their way"
    return (
        f"nothing is pending: {shows_all} shows what is decided"
        if shows_all
        else "no file was changed"
    )
