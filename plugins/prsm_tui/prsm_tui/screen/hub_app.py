"""The application of many sessions: the list, and above it the session that is visited.

It is the application of one session, which shows another one each time; blank while none is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

from prsm_core.kit import first_line
from prsm_tui.keys import NEEDS_YOU, NEW, SESSIONS, Keymap
from prsm_tui.model.session import Session
from prsm_tui.screen import messages
from prsm_tui.screen.app import Tui
from prsm_tui.screen.help import Help
from prsm_tui.screen.keys import binding
from prsm_tui.screen.needs_you import AnswerLine, NeedsYou
from prsm_tui.screen.panes import Panes
from prsm_tui.screen.prompt import PastesText, Prompt
from prsm_tui.screen.sessions import SessionsScreen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Unpack

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from prsm_tui.acts import Acts
    from prsm_tui.hub_acts import HubActs
    from prsm_tui.model.review import Comment
    from prsm_tui.model.sessions import Listed, Sessions
    from prsm_tui.rounds import Rounds
    from prsm_tui.screen.app import ScreenOptions

    Drafts = Mapping[str | None, str]


class Kept(NamedTuple):
    """What is kept of a session that was left: whom it showed, what was typed and not sent.

    So are the filters, of the tree and of transcripts by agent.
    """

    chosen: str | None
    drafts: Drafts
    comments: dict[object, Comment]
    tree: str
    filters: Mapping[str | None, str]


class HubTui(Tui):
    """Shows many sessions, one of them at a time."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *Tui.BINDINGS,  # else a key that means something here means nothing there
        # Seen to before the next key is passed on, which is of what was asked for.
        binding("sessions.new", "new_session", has_priority=True),
        binding("sessions.filter", "filter_sessions", has_priority=True),
    ]

    def __init__(
        self, sessions: Sessions, *, workspace: str, **options: Unpack[ScreenOptions]
    ) -> None:
        """Show the list; `workspace` is where a new session works unless a person says else."""
        super().__init__(Session(), owns=False, **options)
        self.sessions = sessions
        self.overview = SessionsScreen(sessions, self.keymap)
        self.rounds: Rounds  # given before it is run, as `many` is
        self._new = (workspace, "")  # where the next one works, and its task so far
        self._form: NewSession | None = None  # where these are typed
        self._answering = False  # the visit is for what waits there, and ends with that
        self._kept: dict[str, Kept] = {}  # of sessions that were left

    def get_default_screen(self) -> Screen[Any]:
        return self.overview

    # What became of what was asked for

    def told(self, level: str, text: str) -> None:
        """Say something where the person is, behind what was to be shown before it."""
        if self.is_running:
            _ = self.call_later(self._told, level, text)

    def _told(self, level: str, text: str) -> None:
        if self._is_visited:
            super().told(level, text)
        lead = "" if level == "info" or not text else f"{level}: "
        self.overview.say(f"{lead}{text}")
        if isinstance(self.screen, NewSession):
            self.screen.say(f"{lead}{text}")

    def enter(self, session: Session, acts: Acts) -> None:
        """Show a session, or another picture of the one that is shown."""
        _ = self.call_later(self._enter, session, acts)

    def left(self) -> None:
        """Show the list again."""
        _ = self.call_later(self._leave)

    def begun(self, session: str) -> None:
        """Show the list until the new session is there."""
        _ = self.call_later(self._begun, session)

    def _enter(self, session: Session, acts: Acts) -> None:
        self._put_away()
        self.session, self.acts = session, acts
        self.panes = Panes(session, self.keymap)
        self.chosen, self._is_chosen = None, False
        self.attention.forget()
        self._pop_to_overview()
        if self._answering:
            _ = self.push_screen(self._needs_you())
        else:
            _ = self.push_screen(self.panes)
            self.call_after_refresh(self._take_up)
        self._show_rounds()

    def _leave(self) -> None:
        self._put_away()
        self._pop_to_overview()
        self.session, self.acts = Session(), None
        self._answering = False
        self._show_rounds()

    def _begun(self, session: str) -> None:
        self.sessions.chosen = session
        if isinstance(self.screen, NewSession):
            self._close_form()
            _ = self.pop_screen()

    def not_begun(self, task: str) -> None:
        """Put a task back that did not begin."""
        if self._form is not None:
            self._form.give_back(task)
        else:
            self._new = self._new[0], "\n".join(filter(None, (task, self._new[1])))

    def listed(self) -> None:
        """Have the list read again."""
        self.rounds.soon()

    def drafts(self) -> Sequence[str]:
        """Return what was typed anywhere and not sent."""
        self._put_away()
        texts: list[str] = []
        for kept in self._kept.values():
            texts += [*kept.drafts.values(), *(one.text for one in kept.comments.values())]
        self._close_form()
        return [text for text in (*texts, self._new[1]) if text.strip()]

    # What a person did

    def on_session_passed(self, _: messages.SessionPassed) -> None:
        """Show what the session did last that the cursor is on."""
        self.told("info", "")
        self.listed()
        self.changed()

    def on_session_wanted(self, message: messages.SessionWanted) -> None:
        """Do what is wanted of a session."""
        listed = self.sessions.find(message.session)
        if self.many is None or listed is None:
            return
        doing: Mapping[str, Callable[[Listed], None]] = {
            "open": self._open,
            "answer": self._answer,
            "resume": self._resume,
            "stop": self._stop,
            "rename": self._rename,
            "fork": lambda one: self._act().fork(one.id),
            "export": self._export,
            "delete": self._delete,
        }
        doing[message.what](listed)

    def on_prompt_submitted(self, message: messages.PromptSubmitted) -> None:
        """Keep a prompt as a draft while the session is being left; else it is sent, as in one."""
        if self._act().is_turning:
            message.prevent_default()  # what is done with it in one session
            self.unsent(message.agent, message.text)

    def on_task_given(self, message: messages.TaskGiven) -> None:
        self._act().new(message.workspace, message.task)

    def _step_back(self) -> None:
        if isinstance(self.screen, NewSession):
            self._close_form()
            _ = self.pop_screen()
        elif isinstance(self.screen, NeedsYou) and self._answering:
            self._act().leave()
        elif self.screen is not self.overview:
            super()._step_back()

    def on_stepped_out(self, message: messages.SteppedOut) -> None:
        """Go back to the list; what runs goes on."""
        message.stop()
        self._act().leave()

    def action_sessions(self) -> None:
        if isinstance(self.screen, NewSession):
            self._close_form()
            _ = self.pop_screen()
        elif self._is_visited:
            self._act().leave()

    async def action_new_session(self) -> None:
        await self.push_screen(self._open_form())

    def action_filter_sessions(self) -> None:
        self.overview.rows.begin_filter()

    def begin_new(self, workspace: str) -> None:
        """Go where another session begins, in a folder."""
        self._act().leave()
        self._new = workspace or self._new[0], self._new[1]  # of the next form
        self._act().then(lambda: self.call_later(self._push_new))

    def action_needs_you(self) -> None:
        """Go to what waits for the person, or back; on the list, in the session of the cursor."""
        chosen = self.sessions.find(self.sessions.chosen)
        if isinstance(self.screen, NeedsYou) and self._answering:
            self._act().leave()
        elif self.screen is not self.overview:
            super().action_needs_you()
        elif chosen is not None:
            self._answer(chosen)

    def action_help(self) -> None:
        if self.screen is self.overview:
            _ = self.push_screen(Help([SESSIONS], self.keymap))
        elif isinstance(self.screen, NewSession):
            _ = self.push_screen(Help([NEW], self.keymap))
        else:
            super().action_help()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave letters to where they are typed."""
        if action in {"new_session", "filter_sessions"}:
            return self.screen is self.overview and not self.overview.rows.is_filtering
        return super().check_action(action, parameters)

    # The list

    def _open(self, one: Listed) -> None:
        self._answering = False
        self._act().open(one.id)

    def _answer(self, one: Listed) -> None:
        if not one.waits:
            self.told("info", f"nothing waits for you in {one.name}")
            return
        self._answering = True
        self._act().open(one.id)

    def _resume(self, one: Listed) -> None:
        if one.status != "interrupted":
            self.told("warning", f"{one.name} is {one.word}: only what was cut off goes on")
            return
        self._act().resume(one.id)

    def _stop(self, one: Listed) -> None:
        if one.status != "running":
            self.told("warning", f"no run of {one.name} is open")
            return
        question = f"End the run of {one.name} as interrupted? Its agents are killed."
        self.ask(question, lambda: self._act().stop(one.id))

    def _rename(self, one: Listed) -> None:
        self._ask_line(
            f"What is {one.name} to be called? Nothing: by its task.",
            one.name,
            lambda name: self._act().rename(one.id, name),
        )

    def _export(self, one: Listed) -> None:
        self._ask_line(
            "Write it to which file? Its ending says how: .json, .jsonl or .html.",
            f"{self._new[0].rstrip('/')}/{one.id}.html",
            lambda path: self._act().export(one.id, path),
        )

    def _delete(self, one: Listed) -> None:
        if one.status == "running" and one.is_owned:
            key = self.keymap.shown("sessions.stop")
            self.told("warning", f"{one.name} still runs: end its run first ({key})")
            return
        question = f"Delete {one.name} for good? Files that its agents wrote stay."
        self.ask(question, lambda: self._act().delete(one.id))

    def _ask_line(self, question: str, value: str, do: Callable[[str], None]) -> None:
        def answered(line: str | None) -> None:
            if line is not None:
                do(line)

        _ = self.push_screen(LineAsked(question, value, self.keymap), answered)

    def _push_new(self) -> None:
        if self.screen is self.overview:
            _ = self.push_screen(self._open_form())

    def _open_form(self) -> NewSession:
        self._form = NewSession(*self._new, self.keymap)
        return self._form

    def _close_form(self) -> None:
        if self._form is not None:
            self._new, self._form = self._form.typed, None

    # The session that is visited

    @property
    def _is_visited(self) -> bool:
        return self.acts is not None

    def _act(self) -> HubActs:
        if self.many is None:
            raise RuntimeError("the screen was shown before it was given what acts")
        return self.many

    def _put_away(self) -> None:
        """Keep what was typed in the session that is left, and whom it showed."""
        if self._is_visited:
            drafts, comments = self.panes.prompt.kept(), self.session.review.kept
            filters = self.panes.agents.filter.text, self.panes.transcript.filters
            self._kept[self.session.id] = Kept(self.chosen, drafts, comments, *filters)

    def _take_up(self) -> None:
        kept = self._kept.pop(self.session.id, None)
        if kept is None:
            return
        self.panes.prompt.keep(kept.drafts)
        self.session.review.kept = kept.comments
        self.panes.transcript.put_filters(kept.filters)
        if kept.chosen in self.session.agents:
            self.choose(kept.chosen)
        self.panes.agents.filter.text = kept.tree  # who is chosen may not be among those
        self.changed()

    def _pop_to_overview(self) -> None:
        while self.screen is not self.overview and len(self.screen_stack) > 1:
            _ = self.pop_screen()
        self._close_form()

    def _show_rounds(self) -> None:
        self.rounds.is_shown = not self._is_visited
        self.rounds.soon()

    def _draw(self) -> None:
        if self._loop is None or self.is_lent or not self.is_running:
            return
        visited = self.sessions.find(self.session.id)
        if visited is not None:
            self.session.name = visited.name
        if self.screen is self.overview or not self._is_visited:
            self._drawn_at = self._loop.time()
            self.overview.sync(self._clock(), self.rounds.problem)
            self._tell_terminal()
        else:
            super()._draw()
        if self._answering and isinstance(self.screen, NeedsYou):
            self.screen.sync(self._clock())

    def _tick(self) -> None:
        self._draw()

    def _title_now(self) -> tuple[str, int]:
        if self._is_visited:
            title, waiting = super()._title_now()
            others = self.sessions.waiting(besides=self.session.id)
            waiting += others
            return (f"({waiting}) prsm needs you" if others else title), waiting
        waiting = self.sessions.waiting()
        return f"({waiting}) prsm needs you" if waiting else "prsm", waiting

    def _why_notify(self, waiting: int) -> str:
        if self._is_visited:
            return super()._why_notify(waiting)
        return f"{waiting} need you" if waiting > self.attention.waiting else ""

    def _elsewhere(self) -> str:
        return self.sessions.elsewhere(self.session.id)

    def _what_follows(self) -> str:
        runs = [one for one in self.sessions.listed if one.status == "running"]
        if not runs:
            return "nothing runs"
        names = first_line(", ".join(one.name for one in runs), 60)
        return f"what runs goes on ({len(runs)}: {names})"


class LineAsked(ModalScreen[str | None]):
    """Asks for a line; None where the person goes back."""

    DEFAULT_CSS = """
    LineAsked { align: center middle; background: $background 0%; }
    LineAsked > Vertical { width: 70%; height: auto; border: solid $foreground; padding: 0 1; }
    LineAsked Static { width: 100%; height: auto; }
    LineAsked #line, LineAsked #line:focus { border: none; height: 1; padding: 0; }
    """

    def __init__(self, question: str, value: str, keymap: Keymap) -> None:
        super().__init__()
        self._question = question
        self._keymap = keymap
        self._line = AnswerLine(keymap, value=value, id="line", select_on_focus=False)

    def compose(self) -> ComposeResult:
        shown = self._keymap.shown
        with Vertical():
            yield Static(self._question, markup=False)
            yield self._line
            how = f"{shown('requests.send')}: take it, {shown('requests.back')}: leave it as it is"
            yield Static(how, markup=False)

    def on_mount(self) -> None:
        self._line.cursor_blink = False
        self._line.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give the line."""
        event.stop()
        _ = self.dismiss(event.value)

    def on_key(self, event: events.Key) -> None:
        """Go back."""
        if self._keymap.means(NEEDS_YOU, event.key) == "requests.back":
            event.stop()
            _ = self.dismiss(None)


class FolderLine(PastesText, Input):
    """The folder that a session works in."""


class NewSession(Screen[None]):
    """Posts the task with its folder; it is closed once that has begun."""

    AUTO_FOCUS = ""  # it is set once, before the first key: not later, over what a person chose
    BINDINGS: ClassVar[list[BindingType]] = [
        # Seen to before the next key is passed on, which is for the other of the two.
        binding("app.next", "turn", has_priority=True),
        binding("app.previous", "turn", has_priority=True),
    ]
    DEFAULT_CSS = """
    NewSession { layout: vertical; }
    NewSession #head { height: 1; text-style: reverse; }
    NewSession .label { height: 1; text-style: bold; }
    NewSession #folder { border: none; height: 1; padding: 0; }
    NewSession #prompt { height: 1fr; border: none; padding: 0; }
    NewSession #said { height: auto; max-height: 3; }
    NewSession #how { height: 1; }
    """

    def __init__(self, workspace: str, task: str, keymap: Keymap) -> None:
        super().__init__()
        self._keymap = keymap
        self._folder = FolderLine(workspace, id="folder")
        self.prompt = Prompt(keymap)
        self._typed = task
        self._said = Static(id="said", markup=False)

    def compose(self) -> ComposeResult:
        shown = self._keymap.shown
        yield Static("a new session", id="head", markup=False)
        yield Static(f"folder ({shown('app.previous')})", classes="label", markup=False)
        yield self._folder
        yield Static("task", classes="label", markup=False)
        yield self.prompt
        yield self._said
        how = (
            f"{shown('prompt.send')} begins it, in a process of its own; {shown('new.back')}: back"
        )
        yield Static(how, id="how", markup=False)

    def on_mount(self) -> None:
        self._folder.cursor_blink = False
        self.set_focus(self.prompt)
        self.prompt.give_back(None, self._typed)

    @property
    def typed(self) -> tuple[str, str]:
        """The folder and the task as they are now."""
        return self._folder.value, self.prompt.text

    def say(self, text: str) -> None:
        """Say what became of something."""
        self._said.update(text)

    def give_back(self, task: str) -> None:
        """Put a task back that did not begin."""
        self.prompt.give_back(None, task)

    def on_prompt_submitted(self, message: messages.PromptSubmitted) -> None:
        """Give the task, once the folder has read all that was typed to it before."""
        message.stop()
        self.say("it begins …")
        _ = self._folder.call_later(self._give, message.text)

    def _give(self, task: str) -> None:
        self.post_message(messages.TaskGiven(self._folder.value.strip(), task))

    def action_turn(self) -> None:
        self.set_focus(self.prompt if self.focused is self._folder else self._folder)

    def on_word_wanted(self, message: messages.WordWanted) -> None:
        """Nothing completes a word before there is a session."""
        message.stop()

    def on_delivery_turned(self, message: messages.DeliveryTurned) -> None:
        """A task is delivered in one way."""
        message.stop()

    def on_editor_wanted(self, message: messages.EditorWanted) -> None:
        """Say where an editor can be had: what opens it belongs to a session."""
        message.stop()
        self.say("your editor opens where you type in a session; this task is typed here")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go on to the task."""
        event.stop()
        self.set_focus(self.prompt)

    def on_key(self, event: events.Key) -> None:
        """Go back."""
        if self._keymap.means(NEW, event.key) == "new.back":
            event.stop()
            self.post_message(messages.SteppedBack())
