"""What waits for a person, and the only place where it is answered.

Nothing opens this but the person. An answer is typed and counts for the request that was drawn
when its first key was pressed: what is typed before that, or for one that has ended, is dropped,
and said to be. A click answers nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.style import Style
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import Input, Static

from prsm_core.kit import format_duration
from prsm_tui.keys import NEEDS_YOU, Keymap
from prsm_tui.model.requests import (
    PERMISSION,
    Request,
    offers,
    parse_answer,
    parse_for_all,
    parse_verdict,
)
from prsm_tui.screen.keys import bindings
from prsm_tui.screen.lines import Line, Lines
from prsm_tui.screen.messages import ActWanted, SteppedBack
from prsm_tui.screen.prompt import PastesText
from prsm_tui.screen.wrapping import hanging

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual import events
    from textual.app import ComposeResult

    from prsm_tui.model.session import Session

_NOTHING = "Nothing waits for you. Esc goes back."
_BOLD, _DIM, _PLAIN = Style(bold=True), Style(dim=True), Style()
_NOT_YET = "…"
_NOBODY = "nobody is asked here: what the command line says answers (--on-ask)"


class AnswerLine(PastesText, Input):
    """Where an answer is typed; the key that gives it is of the table, as what `gives` names."""

    DEFAULT_CSS = "AnswerLine > .input--placeholder { color: $foreground 75%; }"

    def __init__(self, keymap: Keymap, gives: str = "requests.send", **options: Any) -> None:
        super().__init__(**options)
        self._keymap = keymap
        self._gives = gives

    async def _on_key(self, event: events.Key) -> None:
        gives = event.key in self._keymap.of(self._gives)
        if not gives and event.key != "enter":
            await super()._on_key(event)
            return
        event.stop()  # Enter that gives no answer has no other meaning here
        event.prevent_default()
        if gives:
            await self.action_submit()


class NeedsYou(Screen[None]):
    """Shows the open requests, the oldest first, one of them whole."""

    BINDINGS = bindings(NEEDS_YOU)
    DEFAULT_CSS = """
    NeedsYou { layout: vertical; }
    NeedsYou #waiting { height: auto; max-height: 30%; min-height: 1; }
    NeedsYou #asked { height: 1fr; border-top: solid $foreground 30%; }
    NeedsYou #offers { height: auto; max-height: 4; text-style: bold; }
    NeedsYou #said { height: auto; max-height: 3; }
    NeedsYou #answer { border: none; height: 1; padding: 0; }
    """

    def __init__(self, session: Session, now: float, keymap: Keymap, *, answers: bool) -> None:
        super().__init__()
        self._session = session
        self._keymap = keymap
        self._now = now
        self._answers = answers  # whether a person may
        self._given: set[str] = set()  # what was answered here, and has not ended yet
        self._shown: Request | None = None
        self._is_built = False  # its widgets are there
        self._is_drawn = False
        self._meant: tuple[str, Sequence[str]] | None = None  # what the typed answer is for
        self._offered = ""
        self._rows, self._asked = Lines(id="waiting"), Lines(id="asked")
        self._offers = Static(id="offers", markup=False)
        self._said = Static(id="said", markup=False)
        send, back = keymap.shown("requests.send"), keymap.shown("requests.back")
        hint = f"the answer, then {send}; {back} goes back"
        self._line = AnswerLine(keymap, id="answer", placeholder=hint)

    def compose(self) -> ComposeResult:
        yield self._rows
        with Vertical():
            yield self._asked
        yield self._offers
        yield self._said
        yield self._line

    def on_mount(self) -> None:
        """Type the answer at once; the request is drawn first."""
        self._rows.can_focus = self._asked.can_focus = False
        self._line.cursor_blink = False
        self._line.disabled = not self._answers
        self._line.focus()
        self._is_built = True
        self.sync(self._now)

    def sync(self, now: float) -> None:
        """Follow the model; the request that is shown stays, as long as it is open."""
        if not self._is_built:
            return
        self._now = now
        self._given &= self._session.requests.keys()
        waiting = self._waiting()
        if self._shown is None or self._shown not in waiting:
            self._show(waiting[0] if waiting else None)
        place = waiting.index(self._shown) if self._shown in waiting else -1
        rows = self._rows
        rows.styles.height = max(1, min(len(waiting), 8))
        rows.provide(len(waiting), lambda index, _width: self._row(waiting[index]))
        rows.put_cursor(place)
        self._draw_request()

    def move(self, step: int) -> None:
        """Show another request; what was typed for the one before is dropped."""
        waiting = self._waiting()
        if self._shown in waiting:
            place = min(len(waiting) - 1, max(0, waiting.index(self._shown) + step))
            if waiting[place] is not self._shown:
                self._show(waiting[place])
                self.sync(self._now)

    def withdraw(self, request: str) -> None:
        """Show a request again whose answer did not get through."""
        self._given.discard(request)
        self.sync(self._now)

    def say(self, text: str) -> None:
        """Say what became of something."""
        self._said.update(text)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Note what is drawn when the first key of an answer is pressed."""
        if not event.value:
            self._meant = None
        elif self._meant is None:
            ids = [one.id for one in self._waiting() if one.kind == PERMISSION]
            known = self._shown is not None and self._is_drawn
            self._meant = (self._shown.id if known and self._shown else "", ids)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take an answer, if it is clear and for what is still open."""
        typed, meant = event.value, self._meant
        if not typed.strip() or meant is None:
            return
        request = self._session.requests.get(meant[0])
        if request is None or request.id in self._given:
            self._drop(typed, "what it was for has ended, or was not on the screen yet")
            return
        why = self._answer(request, typed, meant[1])
        if why:
            self.say(why)
            return
        self.say("")
        self._clear()
        self.sync(self._now)

    def on_key(self, event: events.Key) -> None:
        """See to the keys that the line for the answer has no use for."""
        page = self._asked.size.height - 1
        match self._keymap.means(NEEDS_YOU, event.key):
            case "requests.back":
                self.post_message(SteppedBack())
            case "requests.page_down":
                self._asked.scroll_relative(y=page, animate=False)
            case "requests.page_up":
                self._asked.scroll_relative(y=-page, animate=False)

    def _answer(self, request: Request, typed: str, permissions: Sequence[str]) -> str:
        """Answer by what was typed; return why that is no answer, blank if it is one."""
        if request.kind != PERMISSION:
            if parse_answer(typed, request) is None:
                return "that is none of the answers"
            self._given.add(request.id)
            self.post_message(ActWanted(lambda acts: acts.answer(request.id, typed)))
            return ""
        for_all = parse_for_all(typed) if len(permissions) > 1 else None
        verdict = for_all or parse_verdict(typed, request.options)
        if verdict is None:
            return "that is none of the answers"
        open_now = self._session.requests
        ids = [
            id_
            for id_ in (permissions if for_all else [request.id])
            if id_ in open_now and id_ not in self._given and verdict in open_now[id_].options
        ]
        self._given.update(ids)
        self.post_message(ActWanted(lambda acts: acts.resolve(ids, verdict)))
        return ""

    def _waiting(self) -> Sequence[Request]:
        return [one for one in self._session.requests.values() if one.id not in self._given]

    def _show(self, request: Request | None) -> None:
        """Turn to a request: it takes answers once it is drawn."""
        if self._shown is not None and request is not None:
            self._asked.scroll_to(y=0, animate=False)
        self._shown, self._is_drawn = request, False
        if request is not None:
            self.call_after_refresh(self._drawn, request)

    def _drawn(self, request: Request) -> None:
        self._is_drawn = self._shown is request
        self._draw_offers()
        if self._meant is not None and self._meant[0] != request.id:
            self._drop(self._line.value, "another request is shown now")

    def _drop(self, typed: str, why: str) -> None:
        if typed.strip():
            self.say(f"not used: {typed.strip()!r}: {why}")
        self._clear()

    def _clear(self) -> None:
        self._meant = None
        self._line.value = ""

    def _row(self, request: Request) -> Line:
        path = "/".join(self._session.path_of(request.agent))
        agent = self._session.agents.get(request.agent)
        model = f" ({agent.label})" if agent is not None else ""
        left = "" if request.expires_at is None else f" · {self._left(request)} left"
        return f"{path}{model}{left} · {request.head}", _PLAIN

    def _left(self, request: Request) -> str:
        return format_duration(max(0.0, (request.expires_at or 0.0) - self._now))

    def _draw_request(self) -> None:
        request = self._shown
        lines = list(self._lines_of(request)) if request is not None else [(_NOTHING, _DIM)]
        asked = self._asked
        width = max(10, asked.size.width or self.app.size.width)
        rows = [(row, style) for text, style in lines for row in hanging(text, width)]
        asked.provide(len(rows), lambda index, _width: rows[index])
        self._draw_offers()

    def _draw_offers(self) -> None:
        """Say which answers there are, once one that is typed counts."""
        count = sum(one.kind == PERMISSION for one in self._waiting())
        text = ""
        if self._shown is not None:
            text = offers(self._shown, count) if self._is_drawn else _NOT_YET
        text = text if self._answers else _NOBODY
        if text != self._offered:
            self._offered = text
            self._offers.update(text)

    def _lines_of(self, request: Request) -> Sequence[Line]:
        session = self._session
        agent = session.agents.get(request.agent)
        names: Mapping[str, str] = {
            "agent": " / ".join(session.path_of(request.agent)),
            "model": agent.label if agent is not None else "?",
            "task": agent.task if agent is not None else "",
            "asks since": format_duration(max(0.0, self._now - request.opened_at)),
            "time left": "no limit" if request.expires_at is None else self._left(request),
        }
        head = [(f"{name}: {value}", _DIM) for name, value in names.items() if value]
        return [*head, ("", _PLAIN), *((line, _BOLD) for line in request.lines)]
