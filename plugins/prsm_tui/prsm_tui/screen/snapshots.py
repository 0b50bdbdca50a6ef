"""The snapshots of a session: which there are, what a restore of one would change, its restore."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.style import Style
from textual.widgets import Static

from prsm_tui.keys import SNAPSHOTS
from prsm_tui.screen.keys import bindings
from prsm_tui.screen.lines import Line, Lines
from prsm_tui.screen.messages import ActWanted
from prsm_tui.screen.needs_you import AnswerLine
from prsm_tui.screen.place import Place
from prsm_tui.screen.wrapping import wrap_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.widgets import Input

    from prsm_tui.keys import Keymap
    from prsm_tui.model.session import Session
    from prsm_tui.model.shelf import Plan, Snapshot

_PLAIN, _DIM = Style(), Style(dim=True)
_ID = 10  # characters that name one


class Snapshots(Place):
    """Posts which snapshot is to be taken, looked at, or restored."""

    BINDINGS = bindings(SNAPSHOTS)
    named = "snapshots"
    KEYS = (SNAPSHOTS,)
    HINTS = (
        ("snapshots.open", "what a restore changes", "screen.open"),
        ("snapshots.restore", "restore", "screen.restore"),
        ("snapshots.undo", "undo", "screen.undo"),
        ("snapshots.new", "new", "screen.new"),
        ("app.help", "keys", "app.help"),
    )
    DEFAULT_CSS = """
    Snapshots #list { height: 1fr; }
    Snapshots #head { height: auto; max-height: 4; width: 100%; text-style: bold; }
    Snapshots #plan { height: 1fr; }
    """

    def __init__(self, session: Session, keymap: Keymap) -> None:
        super().__init__(session, keymap)
        self._chosen: str | None = None
        self._drawn: tuple[object, ...] = ()
        self._asked_at = -1
        self._is_naming = False
        self._planned: str | None = None  # the snapshot whose plan is on its way
        self._list, self._plan = Lines(id="list"), Lines(id="plan")
        self._head = Static(id="head", markup=False)
        send, back = keymap.shown("requests.send"), keymap.shown("snapshots.back")
        hint = f"what it is for, or nothing; {send}; {back}: none"
        self._text = AnswerLine(keymap, id="name", placeholder=hint)
        self.body, self.foot = (self._list, self._head, self._plan), (self._text,)

    def on_mount(self) -> None:
        self._text.display = False
        self._text.cursor_blink = False
        self._plan.can_focus = False
        self._list.focus()
        self.is_built = True
        self.sync(0.0)

    def sync(self, now: float) -> None:
        """Follow the model; what was told of since is read again."""
        if not self.is_built:
            return
        newest = self.session.newest("snapshot_taken")
        if newest != self._asked_at:
            self._asked_at = newest
            self.post_message(ActWanted(lambda acts: acts.files.load_snapshots()))
        drawn = self.session.shelf.version, self._chosen, self.size.width
        if drawn != self._drawn:
            self._draw()
            self._drawn = self.session.shelf.version, self._chosen, self.size.width

    def on_resize(self, _: events.Resize) -> None:
        self.sync(0.0)

    def step_back(self) -> bool:
        """Go from the name of a new one to the list."""
        if not self._is_naming:
            return False
        self._end_name()
        return True

    def action_move(self, step: int) -> None:
        ids = [one.id for one in self._snapshots]
        if ids:
            place = ids.index(self._chosen) + step if self._chosen in ids else 0
            self._chosen = ids[min(len(ids) - 1, max(0, place))]
            self.say("")
            self.sync(0.0)

    def action_scroll(self, step: int) -> None:
        self._plan.scroll_relative(y=step * max(1, self._plan.size.height - 1), animate=False)

    def action_open(self) -> None:
        chosen = self._chosen
        if chosen is not None:
            self._planned = chosen
            self.say("what a restore would change is being found out")
            self.post_message(ActWanted(lambda acts: acts.files.plan(chosen)))

    def action_restore(self) -> None:
        """Restore it; asks first."""
        chosen = self._chosen
        if chosen is None:
            return
        plan = self.session.shelf.plans.get(chosen)
        if plan is None:
            self.say(f"look at what it changes first: {self.keymap.shown('snapshots.open')}")
        elif plan.error:
            self.say(plan.error)
        else:
            what = f"Restore snapshot {chosen[:_ID]}? {plan.summary}."
            question = f"{what} {self.keymap.shown('snapshots.undo')} takes it back afterwards."
            self.post_message(ActWanted(lambda acts: acts.files.restore(chosen), question))

    def action_new(self) -> None:
        self._is_naming = True
        self._text.display = True
        self._text.value = ""
        self._text.focus()

    def action_undo(self) -> None:
        """Take back what was done to files last; asks first."""
        question = "Take back what was done to files last?"
        self.post_message(ActWanted(lambda acts: acts.files.undo_act(), question))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take a snapshot."""
        if self._is_naming:
            self._end_name()
            self.say("the snapshot is being taken: agents that write are waited for")
            text = event.value.strip()
            self.post_message(ActWanted(lambda acts: acts.files.take_snapshot(text)))

    def on_click(self, event: events.Click) -> None:
        """Go to the snapshot that was clicked; a second click says what it changes."""
        place = round(self._list.scroll_y) + event.y
        if event.widget is self._list and place < len(self._snapshots):
            self._chosen = self._snapshots[place].id
            self.sync(0.0)
            if event.chain > 1:
                self.action_open()

    @property
    def _snapshots(self) -> Sequence[Snapshot]:
        return self.session.shelf.snapshots

    def _end_name(self) -> None:
        self._is_naming = False
        self._text.display = False
        self._list.focus()

    def _draw(self) -> None:
        shelf, known = self.session.shelf, self._snapshots
        if self._planned in shelf.plans:
            self._planned = None
            self.say("")
        ids = [one.id for one in known]
        if self._chosen not in ids:
            self._chosen = ids[0] if ids else None
        self.titled.update(f" snapshots of this session: {len(ids)}")
        self._list.provide(len(ids), lambda index, width: (self._row(known[index], width), _PLAIN))
        self._list.styles.height = max(1, min(len(ids), self.size.height // 3))
        self._list.put_cursor(ids.index(self._chosen) if self._chosen in ids else -1)
        chosen = next((one for one in known if one.id == self._chosen), None)
        if chosen is None:
            new = self.keymap.shown("snapshots.new")
            nothing = f"no snapshot was taken in this session: {new} takes one"
            self._head.update(shelf.error or (nothing if shelf.is_known else "on their way"))
            self._fill(None)
            return
        self._head.update("\n".join(self._about(chosen)))
        self._fill(shelf.plans.get(chosen.id))

    def _row(self, snapshot: Snapshot, width: int) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(snapshot.taken_at))
        what = snapshot.description or "-"
        mark = "!" if snapshot.unquiet else " "
        name = self.session.name_of(snapshot.agent) if snapshot.agent else ""
        who = f"  for {name}" if name and width >= 100 else ""
        return f"{mark} {snapshot.id[:_ID]}  {when}  {snapshot.kind:<7}  {what}{who}"

    def _about(self, snapshot: Snapshot) -> Sequence[str]:
        branch = f" · branch {snapshot.branch}" if snapshot.branch else ""
        head = f" at {snapshot.head}" if snapshot.head else ""
        lines = [f"{snapshot.id} · {snapshot.kind}{branch}{head}"]
        lines += [f"an agent wrote meanwhile: {one}" for one in snapshot.unquiet[:2]]
        if snapshot.bytes_skipped:
            lines.append(f"it does not hold {snapshot.bytes_skipped:,} bytes of large files")
        return lines

    def _fill(self, plan: Plan | None) -> None:
        lines: list[Line] = []
        if plan is None:
            opens = self.keymap.shown("snapshots.open")
            lines.append(
                (f"{opens} finds out what a restore would change; nothing is changed", _DIM)
            )
        else:
            lines.append((plan.error or plan.summary, _PLAIN))
            lines += [(line, _PLAIN) for line in plan.lines]
        width = max(10, self._plan.size.width or self.app.size.width)
        rows = [(row, style) for text, style in lines for row in wrap_all(text, width)]
        self._plan.provide(len(rows), lambda index, _width: rows[index])
