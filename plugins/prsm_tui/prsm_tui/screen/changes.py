"""The changes of a session: which there are, what each did to lines, and what becomes of them.

Where there are few rows, the list or the lines of one change are seen; Enter and Esc go between. A
comment that is typed is never lost: whoever steps back keeps it, to be sent later with others.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.style import Style
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Static

from prsm_tui.keys import CHANGES, DIFF
from prsm_tui.model.comments import addressee, sending
from prsm_tui.model.patches import REMOVED
from prsm_tui.model.review import (
    WAYS,
    Change,
    Comment,
    Detail,
    Group,
    counted,
    size_of,
    subject_of,
    without_unsure,
)
from prsm_tui.screen.diff import Diff
from prsm_tui.screen.keys import bindings
from prsm_tui.screen.lines import Line, Lines
from prsm_tui.screen.messages import ActWanted
from prsm_tui.screen.place import Place
from prsm_tui.screen.prompt import Prompt
from prsm_tui.screen.wrapping import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from textual import events
    from textual.app import ComposeResult

    from prsm_tui.keys import Keymap
    from prsm_tui.model.patches import PatchLine
    from prsm_tui.model.session import Session
    from prsm_tui.screen.messages import PaneLeft, PromptSubmitted, SteppedBack

TALL = 30  # rows from which on list and lines are seen together
_OUTDATING = ("file_changed", "changes_decided", "worktree_merged")
_BOLD = Style(bold=True)


class Changes(Place):
    """Posts what a person decides and says about changes."""

    BINDINGS = bindings(CHANGES)
    named = "changes"
    KEYS = (CHANGES, DIFF)
    HINTS = (
        ("changes.open", "lines", "screen.pane"),
        ("changes.accept", "accept", "screen.accept('one')"),
        ("changes.reject", "reject", "screen.reject('one')"),
        ("changes.comment", "comment", "screen.comment"),
        ("changes.why", "why", "screen.why"),
        ("changes.author", "agent", "screen.author"),
        ("changes.by", "by", "screen.by"),
        ("app.help", "keys", "app.help"),
    )
    DEFAULT_CSS = """
    Changes #list { height: 1fr; }
    Changes #lines { height: 2fr; }
    Changes #diff { height: 1fr; }
    Changes #about { height: auto; max-height: 4; width: 100%; }
    Changes #lines .head { height: 1; width: 100%; text-style: bold underline; }
    Changes #list:focus, Changes #diff:focus { background-tint: $foreground 4%; }
    """

    def __init__(self, session: Session, delivery: Callable[[], str], keymap: Keymap) -> None:
        """Show them; `delivery` tells how what is said on them is delivered now."""
        super().__init__(session, keymap)
        self._delivery = delivery
        self._by, self._shows_all = WAYS[0], False
        self._rows: Sequence[Row] = ()
        self._chosen: str | None = None  # the change that the cursor is on
        self._path = 0  # cells of the longest path
        self._drawn: tuple[object, ...] = ()
        self._asked_at = -1  # the event that the changes were read again for
        self._asked: set[str] = set()  # changes whose lines are on their way
        self._is_at_lines = False  # rather than at the list
        self._list, self._diff = Lines(id="list"), Diff()
        self._head = Static(classes="head", markup=False)
        self._about = Static(id="about", markup=False)
        self._lines = Vertical(self._head, self._diff, id="lines")
        self.comment = CommentBox(keymap)
        self.body, self.foot = (self._list, self._lines, self._about), (self.comment,)

    @property
    def prompt(self) -> Prompt:
        """Where a comment is typed."""
        return self.comment.prompt

    def on_mount(self) -> None:
        self._list.focus()
        self._arrange()
        self.is_built = True
        self.sync(0.0)

    def on_unmount(self) -> None:
        """Keep a comment that is typed while the screen is left by another way."""
        if self.comment.typed is not None:
            self.session.review.keep(self.comment.typed)

    def on_resize(self, _: events.Resize) -> None:
        self._arrange()

    def sync(self, now: float) -> None:
        """Follow the model; what was told of since is read again."""
        if not self.is_built:
            return
        newest = self.session.newest(*_OUTDATING)
        if newest != self._asked_at:
            self._asked_at = newest
            self.post_message(ActWanted(lambda acts: acts.files.load()))
        review = self.session.review
        where = self._is_at_lines, self.size.height >= TALL
        drawn = review.version, self._by, self._shows_all, self._chosen, where
        if drawn != self._drawn:
            self._drawn = drawn
            self._draw()
        if self.comment.is_open:
            self._tell_to_whom()

    def step_back(self) -> bool:
        """Go from a comment to its lines, from several lines to one, and from there to the list."""
        if self.comment.is_open:
            self.comment.end()
            return True
        if self._is_at_lines and self._diff.has_region:
            self._diff.drop_region()
            return True
        if self._is_at_lines:
            self._go_to(self._list)
            return True
        return False

    def action_move(self, step: int) -> None:
        if self.comment.is_open:
            return
        known = self._known
        ids = [one.id for one in known]
        if known:
            place = ids.index(self._chosen) + step if self._chosen in ids else 0
            self._choose(known[min(len(known) - 1, max(0, place))])

    def action_edge(self, place: int) -> None:
        if self._known:
            self._choose(self._known[place])

    def action_open(self) -> None:
        if not self._is_at_lines and self._change is not None:
            self._go_to(self._diff)

    def action_pane(self) -> None:
        if not self.comment.is_open:
            self._go_to(self._list if self._is_at_lines else self._diff)

    def action_by(self) -> None:
        """Put them together otherwise: by file, agent or turn."""
        self._by = WAYS[(WAYS.index(self._by) + 1) % len(WAYS)]
        self.sync(0.0)

    def action_all(self) -> None:
        self._shows_all = not self._shows_all
        self.sync(0.0)

    def action_accept(self, which: str) -> None:
        meant = self._meant(which)
        if not meant:
            return
        question = "" if which == "one" else f"Accept {counted(meant)}?"
        ids = [one.id for one in meant]
        self.post_message(ActWanted(lambda acts: acts.files.accept(ids), question))

    def action_reject(self, which: str) -> None:
        """Take the change back, or all of its group; asks first."""
        meant = self._meant(which)
        if not meant:
            return
        meant, left = without_unsure(meant) if which == "all" else (meant, "")
        if not meant:
            self.say(f"{left}; take them back one by one")
            return
        what = f"Take back {counted(meant)}? What came later in the same files stays."
        question = f"{what} {left}".rstrip()
        ids = [one.id for one in meant]
        self.post_message(ActWanted(lambda acts: acts.files.reject(ids), question))

    def action_comment(self) -> None:
        """Begin a comment on the lines that are chosen, from the list on the first that differs.

        Who wants to write is let write: letters that were meant for it would decide about changes.
        So it is begun where no line is to be seen, too. It is on all of the change then, until
        lines come that are on their way (`_show_lines`).
        """
        change, lines = self._change, self._diff.chosen
        if change is None:
            self.say(self._none("there is no change here to comment on"))
            return
        to = addressee(self.session, change)
        if isinstance(to, str):
            self.say(to)
            return
        self.say("")
        self.action_open()
        kept = self.session.review.kept_at(change.id, lines)
        self.comment.begin(kept or Comment(change.id, lines, ""))
        self.hint.display = False  # its letters are of the comment now
        self._tell_to_whom()

    def action_send(self) -> None:
        """Send the comments that are kept, all of one agent at once; asks first."""
        kept = list(self.session.review.kept.values())
        if not kept:
            key = self.keymap.shown("changes.comment")
            self.say(f"no comment is kept: {key} begins one, and stepping back keeps it")
            return
        self._have_sent(kept, sending(self.session, kept))

    def _have_sent(self, comments: Sequence[Comment], question: str = "") -> None:
        how = self._delivery()
        self.post_message(ActWanted(lambda acts: acts.files.comment(comments, how), question))

    def action_why(self) -> None:
        """Tell why: of a line, who made it as it is now; of a change, all of its reason."""
        change, line = self._change, self._diff.current
        if change is None:
            return
        if self._is_at_lines and line is not None and line.kind != REMOVED:
            path, number = change.told_path, line.new or 1
            self.post_message(ActWanted(lambda acts: acts.files.explain(path, number)))
            return
        detail = self.session.review.details.get(change.id)
        self.say(why_of(change, detail) if detail is not None else "its lines are not read yet")

    def action_author(self) -> None:
        change = self._change
        if change is None or change.agent is None:
            self.say("no agent of this session made it: it is from outside")
        else:
            agent, call = change.agent, change.call or ""
            self.post_message(ActWanted(lambda acts: acts.files.find(agent, call)))

    def on_comment_ended(self, message: CommentEnded) -> None:
        """Send the comment, or keep it; a blank one is none."""
        message.stop()
        review, comment = self.session.review, message.comment
        review.keep(comment)
        if message.sends:
            self._have_sent([comment])
        elif comment.text:
            key = self.keymap.shown("changes.send")
            self.say(f"kept, not sent: {comment.short}; {key} sends what is kept")
        self.hint.display = True
        self._diff.drop_region()
        self._go_to(self._diff)

    def on_click(self, event: events.Click) -> None:
        """Go to the change that was clicked; a second click opens it."""
        if event.widget is self._list:
            place = round(self._list.scroll_y) + event.y
            if place < len(self._rows):
                self._go_to(self._list)
                row = self._rows[place]
                self._choose(row if isinstance(row, Change) else row.changes[0])
                if event.chain > 1:
                    self.action_open()

    def _tell_to_whom(self) -> None:
        change = self.session.review.find(self.comment.change)
        to = (
            "its change is not there any more"
            if change is None
            else addressee(self.session, change)
        )
        if isinstance(to, str):
            told = f"to nobody: {to}"
        else:
            key = self.keymap.shown("prompt.delivery")
            told = to.told if to.agent is None else f"{to.told} · {self._delivery()} ({key})"
        keeps = f"{self.keymap.first('prompt.leave')} keeps it"
        self.comment.tell(f"a comment on {subject_of(self.comment.lines)} {told} · {keeps}")

    @property
    def _change(self) -> Change | None:
        return self.session.review.find(self._chosen)

    def _meant(self, which: str) -> Sequence[Change]:
        """Return the open changes that a decision is about; say why there are none.

        What is from outside is decided one by one.
        """
        chosen = self._change
        changes = [] if chosen is None else [chosen]
        if which == "all":
            groups = self.session.review.groups(self._by, shows_all=self._shows_all)
            group = next((group.changes for group in groups if chosen in group.changes), ())
            changes = [one for one in group if one.agent is not None]
        meant = [one for one in changes if one.is_open]
        if not meant:
            self.say(self._none("there is nothing here to decide"))
        return meant

    @property
    def _known(self) -> Sequence[Change]:
        return [row for row in self._rows if isinstance(row, Change)]

    def _none(self, why: str) -> str:
        """Return why there is nothing to act on: nobody knows yet, or `why`."""
        return why if self.session.review.is_known else nothing(False, "")

    def _choose(self, change: Change) -> None:
        self._chosen = change.id
        self.say("")
        self.sync(0.0)

    def _draw(self) -> None:
        review = self.session.review
        groups = review.groups(self._by, shows_all=self._shows_all)
        self._rows = list(rows_of(groups, self._by))
        self._path = max((cell_len(one.path) for one in self._known), default=0)
        ids = [row.id if isinstance(row, Change) else None for row in self._rows]
        if self._chosen is None or self._chosen not in ids:
            self._chosen = next((id_ for id_ in ids if id_ is not None), None)
            self._drawn = (*self._drawn[:3], self._chosen, *self._drawn[4:])
        self.titled.update(self._title(groups))
        self._list.provide(len(self._rows), lambda index, width: self._line_of(index, width))
        self._list.put_cursor(ids.index(self._chosen) if self._chosen else -1)
        self._arrange()
        self._draw_change()

    def _title(self, groups: Sequence[Group]) -> str:
        changes = [one for group in groups for one in group.changes]
        pending = sum(one.is_open for one in changes)
        conflicts = sum(one.is_conflict and one.is_open for one in changes)
        what = f"changes by {self._by}"
        parts = [what, f"pending: {pending}", size_of(changes)]
        parts.append(f"conflicts: {conflicts}" if conflicts else "")
        parts.append("with what is decided" if self._shows_all else "")
        kept = len(self.session.review.kept)
        key = self.keymap.shown("changes.send")
        parts.append(f"comments not sent: {kept} ({key})" if kept else "")
        return " " + " · ".join(part for part in parts if part)

    def _draw_change(self) -> None:
        change, review = self._change, self.session.review
        if change is None:
            key = "" if self._shows_all else self.keymap.shown("changes.all")
            none = nothing(review.is_known, key)
            self._head.update("")
            self._about.update(review.error or ("" if self._lines.display else none))
            self._diff.show((), none)
            return
        detail = review.details.get(change.id)
        self._head.update(f"{change.mark} {change.path}  {size_of([change])}")
        has_head = self._lines.display  # which names the file
        kept = [one for one in review.kept.values() if one.change == change.id]
        self._diff.note(line for one in kept for line in one.lines)
        self._about.update("\n".join(about(change, detail, kept, names_file=not has_head)))
        if detail is None:
            self._diff.show((), "its lines are on their way")
            if change.id not in self._asked:
                self._asked.add(change.id)
                self.post_message(ActWanted(lambda acts: acts.files.open(change.id)))
            return
        self._show_lines(change, detail)

    def _show_lines(self, change: Change, detail: Detail) -> None:
        """Show the lines of a change; a comment that was begun before they came is on them."""
        is_early = change.id in self._asked and self.comment.change == change.id
        self._asked.discard(change.id)
        self._diff.show(detail.lines, detail.error or change.note or "it has no lines to show")
        lines = self._diff.chosen
        if is_early and lines and not self.comment.lines:
            self.comment.put_on(lines, self.session.review.kept_at(change.id, lines))

    def _line_of(self, index: int, width: int) -> Line:
        row = self._rows[index]
        if isinstance(row, Group):
            return head_of(row, self._by), _BOLD
        return line_of(row, width, self._path, is_indented=self._by != "file"), style_of(row)

    def _arrange(self) -> None:
        is_tall = self.size.height >= TALL
        self._list.display = is_tall or not self._is_at_lines
        self._lines.display = is_tall or self._is_at_lines
        most = self.size.height // 3
        self._list.styles.height = max(1, min(len(self._rows), most)) if is_tall else "1fr"

    def _go_to(self, pane: Lines | Diff) -> None:
        self._is_at_lines = pane is self._diff
        self._arrange()
        self.sync(0.0)
        self.set_focus(pane, scroll_visible=False)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Follow a click into the lines; a comment that is left so is kept."""
        if event.widget in {self._list, self._diff}:
            self._is_at_lines = event.widget is self._diff
            if self.comment.is_open and self.focused is event.widget:
                self.comment.end()


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


def nothing(is_known: bool, shows_all: str) -> str:
    """Return what to say of no changes; `shows_all`, the key for those decided, blank: all are."""
    if not is_known:
        return "the changes are on their way"
    return (
        f"nothing is pending: {shows_all} shows what is decided"
        if shows_all
        else "no file was changed"
    )


@dataclass
class CommentEnded(Message):
    """A comment was typed; `sends`: to be sent now, else it is kept."""

    comment: Comment
    sends: bool


class CommentBox(Vertical):
    """Takes one comment at a time; it is not seen while there is none."""

    DEFAULT_CSS = """
    CommentBox { height: auto; width: 100%; }
    CommentBox Static { height: auto; max-height: 2; width: 100%; text-style: bold; }
    CommentBox #prompt { height: auto; min-height: 1; max-height: 8; border: none; padding: 0; }
    """

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        self.prompt = Prompt(keymap)
        send, back = keymap.shown("prompt.send"), keymap.first("prompt.leave")
        self.prompt.placeholder = (
            f"{send} sends it, {keymap.first('prompt.new_line')}: a new line, "
            f"{back} keeps it to be sent with others"
        )
        self._label = Static(markup=False)
        self._on: tuple[str, tuple[PatchLine, ...]] | None = None  # what is commented on

    def compose(self) -> ComposeResult:
        yield self._label
        yield self.prompt

    def on_mount(self) -> None:
        self.display = False

    @property
    def is_open(self) -> bool:
        """Whether a comment is typed."""
        return self._on is not None

    @property
    def change(self) -> str | None:
        """The change that is commented on."""
        return None if self._on is None else self._on[0]

    @property
    def lines(self) -> tuple[PatchLine, ...]:
        """The lines that are commented on."""
        return () if self._on is None else self._on[1]

    @property
    def typed(self) -> Comment | None:
        """What is typed so far, None where that is nothing."""
        text = self.prompt.text.strip()
        return Comment(*self._on, text) if self._on is not None and text else None

    def begin(self, comment: Comment) -> None:
        """Let a comment be typed, or typed on."""
        self._on = comment.change, comment.lines
        self.display = True
        self.prompt.take_over(None, comment.text)
        self.prompt.focus()

    def put_on(self, lines: tuple[PatchLine, ...], kept: Comment | None) -> None:
        """Have what is typed be on these lines, below what is `kept` there already."""
        if self._on is None:
            return
        self._on = self._on[0], lines
        if kept is not None:
            texts = kept.text, self.prompt.text
            self.prompt.take_over(None, "\n".join(text for text in texts if text.strip()))

    def tell(self, label: str) -> None:
        """Say to whom it goes, and how."""
        self._label.update(label)

    def end(self) -> None:
        """Keep what is typed, and be hidden."""
        self._give(self.prompt.text, sends=False)

    def on_prompt_submitted(self, message: PromptSubmitted) -> None:
        """Have it sent."""
        message.stop()
        self._give(message.text, sends=True)

    def on_stepped_back(self, message: SteppedBack) -> None:
        """Have it kept."""
        message.stop()
        self.end()

    def on_pane_left(self, message: PaneLeft) -> None:
        """There is no other pane to go to while a comment is typed."""
        message.stop()

    def _give(self, text: str, *, sends: bool) -> None:
        on, self._on = self._on, None
        if on is None:
            return
        self.display = False
        self.prompt.take_over(None, "")
        self.post_message(CommentEnded(Comment(*on, text.strip()), sends=sends))
