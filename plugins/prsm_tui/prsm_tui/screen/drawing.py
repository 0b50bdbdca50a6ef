"""Blocks as lines. What stands in the first two columns is ours alone: no text gets there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from prsm_core.kit import format_duration
from prsm_tui.model import blocks
from prsm_tui.screen.wrapping import cut, wrap_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prsm_tui.model.session import Session

GUTTER = 2
_NAMED = 16  # cells that a call's name and subject have at least, in one row with its status
_TAIL = 5  # lines of what a call writes that are shown while it runs
_FOLDED = 2000  # lines of a result that are shown once it is unfolded
PLAIN, DIM, BOLD = Style(), Style(dim=True), Style(bold=True)
LEVELS: Mapping[str, Style] = {
    "info": DIM,
    "warning": Style(color="yellow"),
    "error": Style(color="red"),
}
_MARKDOWN = re.compile(r"[*_`#>|~]|^\s*[-+] |^\s*\d+[.)] |\]\(", re.MULTILINE)
_SIGNS = {"completed": "[x]", "in_progress": "[>]"}

Row = list[Segment]


@dataclass(frozen=True, slots=True)
class Look:
    """What a drawing depends on beside its block."""

    width: int
    is_open: bool = False  # unfolded
    is_marked: bool = False  # the cursor is on it


def can_open(block: blocks.Block) -> bool:
    """Return whether a block unfolds, or leads to an agent."""
    return isinstance(block, blocks.Call | blocks.Thought)


def text_of(block: blocks.Block) -> str:
    """Return all text of a block, as it is copied."""
    if isinstance(block, blocks.Call):
        return "\n".join(filter(None, [block.subject, _written(block)]))
    return str(getattr(block, "text", ""))


def draw(block: blocks.Block, look: Look, session: Session) -> Sequence[Row]:
    """Return a block as rows, `look.width` cells wide at most, the gutter included."""
    width = max(4, look.width - GUTTER)
    rows: list[Row] = []
    sign, style, lines = _parts(block, look, session, width)
    sign = ">>" if look.is_marked else sign
    for number, line in enumerate(lines):
        lead = Segment(f"{sign if number == 0 else '':<{GUTTER}}", BOLD if number == 0 else style)
        rows.append([lead, *line])
    return rows


def _parts(
    block: blocks.Block, look: Look, session: Session, width: int
) -> tuple[str, Style, Sequence[Row]]:
    match block:
        case blocks.Prompt():
            return ">", BOLD, _styled(wrap_all(block.text, width), BOLD)
        case blocks.Said():
            return "*", PLAIN, _said(block.text, width, is_whole=block.is_whole)
        case blocks.Thought():
            return "~", DIM, _styled(list(_thought(block, look, width)), DIM)
        case blocks.Call():
            return "$", PLAIN, list(_call(block, look, session, width))
        case blocks.Plan():
            lines = [f"{_SIGNS.get(status, '[ ]')} {text}" for status, text in block.entries]
            done = sum(status == "completed" for status, _ in block.entries)
            head = f"plan: {done} of {len(lines)} done"
            return "=", PLAIN, _styled(wrap_all("\n".join([head, *lines]), width), PLAIN)
        case blocks.Changed():
            return "+", PLAIN, _styled(wrap_all(_changed(block), width), PLAIN)
        case blocks.Asked():
            ended = f": {block.outcome}" if block.outcome else ": waits for you (F2)"
            style = PLAIN if block.outcome else BOLD
            return "?", style, _styled(wrap_all(block.text + ended, width), style)
        case blocks.Note():
            style = LEVELS[block.level]
            lead = "" if block.level == "info" else f"{block.level}: "
            return "-", style, _styled(wrap_all(lead + block.text, width), style)
        case blocks.Ending():
            return "#", BOLD, list(_ending(block, width))
    return "-", DIM, _styled([type(block).__name__], DIM)


def _styled(lines: Sequence[str], style: Style) -> Sequence[Row]:
    return [[Segment(line, style)] for line in lines]


def _said(text: str, width: int, *, is_whole: bool) -> Sequence[Row]:
    text = text.strip("\n")
    if is_whole and _MARKDOWN.search(text):
        return markdown(text, width)
    return _styled(wrap_all(text, width), PLAIN)


def _thought(block: blocks.Thought, look: Look, width: int) -> Iterator[str]:
    text = block.text.strip()
    if look.is_open:
        yield cut(f"thinks ({len(text):,} characters):", width)
        yield from wrap_all(text, width)
        return
    lines = text.splitlines() or [""]  # so far it may be blank, as what models stream first is
    if block.is_whole:
        yield cut(f"thought ({len(text):,} characters): {lines[0]}", width)
    else:
        yield cut(f"thinks ({len(text):,} characters): …{lines[-1][-width:]}", width)


def _call(block: blocks.Call, look: Look, session: Session, width: int) -> Iterator[Row]:
    """Yield a call as one line, then what it writes, or, unfolded, all of it."""
    yield from _call_lines(block, session, width)
    if look.is_open:
        for head, text in (("arguments", block.arguments), ("result", _written(block))):
            if text:
                yield [Segment(cut(f"{head}:", width), DIM)]
                rows = wrap_all(text, width - 2)
                yield from ([Segment(f"  {row}", DIM)] for row in rows[:_FOLDED])
                if len(rows) > _FOLDED:
                    left = f"  … {len(rows) - _FOLDED:,} more lines"
                    yield [Segment(cut(left, width), DIM)]
    elif block.is_open:
        rows = wrap_all(block.output.text[-4000:].rstrip("\n"), width - 2)
        yield from ([Segment(f"  {row}", DIM)] for row in rows[-_TAIL:] if row)


def _call_lines(block: blocks.Call, session: Session, width: int) -> Iterator[Row]:
    """Yield what is called and what became of it, where there is room in one row."""
    status, style = _status(block, session)
    name = block.tool or "a call"
    room = width - cell_len(status) - 2
    is_one = room >= min(_NAMED, width)
    left = cut(f"{name}  {block.subject}".rstrip(), room if is_one else width)
    head, tail = (name, left[len(name) :]) if left.startswith(name) else (left, "")
    row = [Segment(head, BOLD), Segment(tail, PLAIN)]
    if is_one:
        yield [*row, Segment(f"  {status}", style)]
    else:
        yield row
        yield [Segment(cut(status, width), style)]


def _status(block: blocks.Call, session: Session) -> tuple[str, Style]:
    """Return what became of a call; one that is a child's card says what the child does."""
    child = session.agents.get(block.child or "")
    if child is not None:
        from prsm_tui.model.words import state_of  # the same words as in the tree

        sign, word = state_of(child, asks=session.asks(child.id))
        return f"[{sign} {word}, Enter opens it]", DIM
    if block.status == "waits":
        return "[waits for you: F2]", BOLD
    if block.status == "runs":
        return "[runs]", BOLD
    took = "" if block.duration_s is None else f" {_took(block.duration_s)}"
    code = f", exit code {block.exit_code}" if block.exit_code else ""
    level = "warning" if block.status == "unknown" else "error"
    style = DIM if block.status == "completed" else LEVELS[level]
    lines = block.result.count("\n") + 1 if block.result else 0
    size = f", {lines} line{'' if lines == 1 else 's'}" if lines else ""
    return f"[{block.status}{took}{code}{size}]", style


def _took(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds < 10 else format_duration(seconds)


def _written(block: blocks.Call) -> str:
    return block.output.text if block.is_open else block.result


def _changed(block: blocks.Changed) -> str:
    size = "" if block.added is None else f" (+{block.added} -{block.removed or 0})"
    line = f"{block.kind} {block.path}{size}{' ?' if block.is_unsure else ''}"
    if block.others:
        line += f"\nconflict: {', '.join(block.others)} changed it, too"
    return line


def _ending(block: blocks.Ending, width: int) -> Iterator[Row]:
    yield from _styled(wrap_all(block.head, width), BOLD)
    if block.error:
        yield from _styled(wrap_all(f"error: {block.error}", width), LEVELS["error"])
    if block.summary:
        yield from _said(block.summary, width, is_whole=True)
    yield from _styled(wrap_all(block.details, width), DIM)


def markdown(text: str, width: int) -> Sequence[Row]:
    """Return Markdown as rows; entities stay as they are, since they could bring signs that act."""
    from markdown_it import MarkdownIt
    from rich.console import Console
    from rich.markdown import Markdown

    shown = Markdown("", hyperlinks=False, code_theme="ansi_dark")
    parser = MarkdownIt().enable("strikethrough").enable("table").disable("entity")
    shown.markup, shown.parsed = text, parser.parse(text.expandtabs(4))
    console = Console(width=width, file=StringIO(), force_terminal=True, color_system="standard")
    rows = console.render_lines(shown, console.options.update(width=width), pad=False)
    while rows and not "".join(segment.text for segment in rows[-1]).strip():
        rows.pop()
    while rows and not "".join(segment.text for segment in rows[0]).strip():
        rows.pop(0)
    return [list(row) for row in rows]
