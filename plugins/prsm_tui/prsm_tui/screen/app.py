"""The application: it draws frames of the model, and passes on what a person did.

The focus moves by what a person does and by nothing else. Whatever comes is drawn at most fifteen
times a second.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, TextIO, TypedDict

from rich.cells import cell_len
from textual import on
from textual.app import App
from textual.containers import Vertical
from textual.driver import Driver
from textual.markup import escape
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from prsm_core.kit import escape_exact
from prsm_tui.acts import DELIVERIES
from prsm_tui.commands import Typed, completed, read_command, unknown
from prsm_tui.editor import Ends
from prsm_tui.keys import EVERYWHERE, NEEDS_YOU, PROMPT, SURE, TRANSCRIPT, TREE, Keymap
from prsm_tui.screen import messages
from prsm_tui.screen.driver import TerminalDriver
from prsm_tui.screen.help import Help
from prsm_tui.screen.keys import binding, bindings
from prsm_tui.screen.needs_you import NeedsYou
from prsm_tui.screen.panes import Panes
from prsm_tui.screen.place import Place
from prsm_tui.screen.status import title_of
from prsm_tui.screen.themes import HIGH_CONTRAST, ON_DARK, ON_LIGHT, UNCOLOURED, UNDIMMED

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Unpack

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.filter import LineFilter
    from textual.screen import Screen

    from prsm_tui.acts import Acts
    from prsm_tui.hub_acts import HubActs
    from prsm_tui.model.agents import Agent
    from prsm_tui.model.session import Session
    from prsm_tui.screen.palette import CommandPicked
    from prsm_tui.screen.prompt import Prompt

FRAME_SECONDS = 1 / 15
LEAVE_SECONDS = 5.0  # within which the second Ctrl+C leaves
ENOUGH_BLOCKS = 50  # of a transcript that is opened: where there are fewer, a page is loaded
_SCREENS = ("budget", "models", "providers", "policy", "settings", "changes")  # of commands
_PLACES = {"tree": TREE, "transcript": TRANSCRIPT, "prompt": PROMPT}

BELL = "\x07"
_END = "\x1b\\"
_BY_PROGRAM = frozenset({"iterm.app", "wezterm", "ghostty", "windows_terminal"})


class FrameDue(Message):
    """Something has changed, and is drawn now."""


class ScreenOptions(TypedDict, total=False):
    """What a screen is opened with, of one session or of many.

    Attributes:
        terminal: What is drawn on; None in tests, which have none.
        keyboard: The descriptor that is read.
        answers: Whether a person may answer; they may unless it is said.
        keymap: The keys, as the person has set them.
        clock: Tells the time, in Unix seconds.
    """

    terminal: TextIO | None
    keyboard: int | None
    answers: bool
    keymap: Keymap | None
    clock: Callable[[], float]


class Tui(App[None]):
    """Shows one session."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(EVERYWHERE),
        # Seen to before any other key is passed on: what is typed next means something else.
        binding("tree.type", "type('tree')", has_priority=True),
        binding("transcript.type", "type('transcript')", has_priority=True),
        binding("tree.filter", "filter('tree')", has_priority=True),
        binding("transcript.filter", "filter('transcript')", has_priority=True),
    ]

    def __init__(
        self, session: Session, *, owns: bool = True, **options: Unpack[ScreenOptions]
    ) -> None:
        """Show a session, whose runs end with this process if it `owns` them."""
        self.terminal, self.keyboard = options.get("terminal"), options.get("keyboard")
        super().__init__(driver_class=TerminalDriver)
        self.register_theme(HIGH_CONTRAST)
        self.ansi_theme_dark, self.ansi_theme_light = ON_DARK, ON_LIGHT
        self._clock = options.get("clock", time.time)
        self.keymap = options.get("keymap") or Keymap()
        if self.keymap.is_own:
            self.set_keymap(self.keymap.by_name())
        self.session = session
        self.panes = Panes(session, self.keymap)
        self.acts: Acts | None = None  # given before it is run
        self.many: HubActs | None = None  # where there are many sessions
        self.chosen: str | None = None
        self.delivery = DELIVERIES[0]
        self._answers = options.get("answers", True)
        self.owns = owns
        self._is_chosen = False  # by the person, rather than by who leads
        self._frame: asyncio.TimerHandle | None = None
        self._drawn_at = 0.0
        self._left_at: float | None = None
        self.is_lent = False  # the terminal is, to another program
        self.attention = Attention()
        self.notifies = True  # while the window is not in front

    def get_default_screen(self) -> Screen[Any]:
        return self.panes

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return what rows go through before they are written."""
        if self.no_color:
            return [UNCOLOURED]
        filters = super().get_line_filters()
        return [UNDIMMED, *filters] if self.theme == HIGH_CONTRAST.name else filters

    def on_mount(self) -> None:
        """Draw what is there; times are drawn again every second."""
        self.set_interval(1.0, self._tick)
        self.call_after_refresh(self._draw)

    @on(Driver.SignalResume)
    def redraw(self) -> None:
        """Draw all again after a stop: the terminal has shown something else meanwhile."""
        _ = self.screen.refresh()

    def changed(self) -> None:
        """Have a frame drawn, once it is time for one."""
        if self._frame is None and self._loop is not None and self.is_running:
            wait = max(0.0, self._drawn_at + FRAME_SECONDS - self._loop.time())
            self._frame = self._loop.call_later(wait, self.post_message, FrameDue())

    def told(self, level: str, text: str) -> None:
        """Say something above the prompt, until the next thing is said or typed."""
        if not self.is_running:
            return
        lead = "" if level == "info" or not text else f"{level}: "
        self.panes.told.update(f"{lead}{text}")
        self.panes.told.display = bool(text)
        if isinstance(self.screen, NeedsYou | Help | Place):
            self.screen.say(f"{lead}{text}")

    def unsent(self, agent: str | None, text: str) -> None:
        """Put a text that reached nobody back to where it was typed."""
        self.panes.prompt.give_back(agent, text)

    def unanswered(self, request: str) -> None:
        """Show a request again whose answer did not get through."""
        if isinstance(self.screen, NeedsYou):
            self.screen.withdraw(request)

    def found(self, agent: str, call: str | None) -> None:
        """Go to a call in the transcript of its agent, or to its end where it is not there."""
        if self.panes not in self.screen_stack or agent not in self.session.agents:
            return  # the session was left meanwhile
        while self.screen is not self.panes:
            _ = self.pop_screen()
        self.choose(agent)
        self.panes.go_to("transcript")
        block = self.session.agents[agent].transcript.find_block(call or "")
        if block is None:
            self.told("warning", "its call is not in the transcript")
        else:
            self.call_after_refresh(self.panes.transcript.reveal, block)

    def paged(self, agent: str) -> None:
        """Show a page of history that has come."""
        if agent == self.chosen:
            self.panes.transcript.grow()
        self.changed()

    def completed(self, text: str, found: Sequence[str]) -> None:
        """Complete a word, unless somebody typed on meanwhile."""
        if text == self._typed_in.text:
            self._typed_in.complete(found)
            self.told("info", "  ".join(found[:8]) if len(found) > 1 else "")

    def on_frame_due(self, _: FrameDue) -> None:
        self._frame = None
        self._draw()

    def on_agent_chosen(self, message: messages.AgentChosen) -> None:
        self.choose(message.agent)
        if message.opens:
            self.panes.go_to("transcript")

    def choose(self, agent: str | None) -> None:
        """Show an agent, from now on whoever leads; None is the session."""
        self._is_chosen = True
        self._choose(agent)

    def on_text_copied(self, message: messages.TextCopied) -> None:
        """Give a text to the terminal's clipboard: over ssh, too, where the terminal takes it."""
        self.copy_to_clipboard(message.text)
        self.told("info", f"copied: {len(message.text):,} characters, if the terminal takes them")

    def on_nothing_pasted(self, _: messages.NothingPasted) -> None:
        """Say who can read the clipboard."""
        self.told("warning", "nothing was cut here: paste by your terminal, often Shift+Insert")

    def on_history_wanted(self, _: messages.HistoryWanted) -> None:
        if self.acts is not None and self.chosen is not None:
            self.acts.page(self.chosen)

    def on_prompt_submitted(self, message: messages.PromptSubmitted) -> None:
        """Send a prompt, or do what a command says."""
        if self.acts is None:
            return
        self.told("info", "")
        command = read_command(message.text)
        if command is None:
            self.acts.say(message.agent, message.text, self.delivery)
            return
        why_not = Commanding(self, self.acts).do(command)
        if why_not:
            self.unsent(message.agent, message.text)
            self.told("warning", why_not)

    def on_word_wanted(self, message: messages.WordWanted) -> None:
        """Complete a command here, any other word by who knows the files."""
        is_command = message.text.startswith("/") and self._typed_in is self.panes.prompt
        if is_command and " " not in message.text:
            self.completed(message.text, completed(message.text))
        elif self.acts is not None:
            self.acts.complete(message.text)

    def on_delivery_turned(self, _: messages.DeliveryTurned) -> None:
        """Take the next way of delivery."""
        self.delivery = DELIVERIES[(DELIVERIES.index(self.delivery) + 1) % len(DELIVERIES)]
        self._draw()

    def on_pane_left(self, message: messages.PaneLeft) -> None:
        """Go to another pane."""
        self.panes.action_next(message.step)

    def on_stepped_back(self, message: messages.SteppedBack) -> None:
        """Go one step back."""
        message.stop()
        self._step_back()

    def _step_back(self) -> None:
        if isinstance(self.screen, NeedsYou | Place):
            _ = self.pop_screen()
        else:
            self.panes.action_back()

    def on_act_wanted(self, message: messages.ActWanted) -> None:
        """Have something done, once the person is sure where that is asked."""
        acts = self.acts
        if acts is not None and message.question:
            self.ask(message.question, lambda: message.do(acts))
        elif acts is not None:
            message.do(acts)

    def on_kill_wanted(self, message: messages.KillWanted) -> None:
        """Ask, then kill."""
        if self.acts is not None:
            self.told("warning", Commanding(self, self.acts).kill(message.agent))

    def action_needs_you(self) -> None:
        if isinstance(self.screen, NeedsYou):
            _ = self.pop_screen()
        elif self.screen is self.panes or isinstance(self.screen, Place):
            _ = self.push_screen(self._needs_you())

    def _needs_you(self) -> NeedsYou:
        return NeedsYou(self.session, self._clock(), self.keymap, answers=self._answers)

    def action_place(self, name: str) -> None:
        here = self.screen
        if here is not self.panes and not isinstance(here, Place):
            return
        if isinstance(here, Place):
            _ = self.pop_screen()
        if not isinstance(here, Place) or here.named != name:
            _ = self.push_screen(self._make_place(name))

    def _make_place(self, name: str) -> Place:
        """Return the screen of a name, imported only now; else a page of the model."""
        if name == "changes":
            from prsm_tui.screen.changes import Changes

            return Changes(self.session, lambda: self.delivery, self.keymap)
        if name == "snapshots":
            from prsm_tui.screen.snapshots import Snapshots

            return Snapshots(self.session, self.keymap)
        if name == "palette":
            from prsm_tui.screen.palette import Palette

            return Palette(self.session, self.keymap)
        from prsm_tui.screen.board import BoardScreen

        return BoardScreen(self.session, name, lambda: self.chosen, self.keymap)

    def on_command_picked(self, message: CommandPicked) -> None:
        """Do a command, or let the words that it needs be typed."""
        _ = self.pop_screen()
        if message.needs_words:
            self.panes.prompt.take_over(self.chosen, f"/{message.name} ")
            self.panes.go_to("prompt")
        elif self.acts is not None:
            why_not = Commanding(self, self.acts).do(Typed(message.name, ""))
            self.told("warning", why_not)

    def on_editor_wanted(self, message: messages.EditorWanted) -> None:
        """Let a text be gone on with in an editor."""
        if self.acts is not None:
            self.acts.edit(message.agent, message.text)

    def edited(self, agent: str | None, text: str) -> None:
        """Put what came of it back to where it is typed."""
        self._typed_in.take_over(agent, text)

    @property
    def _typed_in(self) -> Prompt:
        """Where a person types: a comment, or else to an agent."""
        own = self.screen.prompt if isinstance(self.screen, Place) else None
        return self.panes.prompt if own is None else own

    def drafts(self) -> Sequence[str]:
        """Return what was typed and not sent."""
        kept = self.session.review.kept.values()
        return [*self.panes.prompt.drafts(), *(comment.text for comment in kept)]

    @contextmanager
    def lent(self) -> Iterator[Ends]:
        """Lend the terminal, if any, to another program: nothing is read or drawn meanwhile.

        Yields what the program reads and draws on.
        """
        if self.is_headless or self.terminal is None:
            yield Ends()
            return
        self.is_lent = True
        try:
            with self.batch_update(), self.suspend():
                yield Ends(self.keyboard, self.terminal.fileno())
        finally:
            self.is_lent = False
            self.refresh(layout=True)
            self.changed()

    def action_request(self, step: int) -> None:
        if isinstance(self.screen, NeedsYou):
            self.screen.move(step)

    def action_help(self) -> None:
        if isinstance(self.screen, Help):
            _ = self.pop_screen()
        elif isinstance(self.screen, NeedsYou):
            _ = self.push_screen(Help([NEEDS_YOU], self.keymap))
        elif isinstance(self.screen, Place):
            _ = self.push_screen(Help(self.screen.KEYS, self.keymap))
        elif self.screen is self.panes:
            _ = self.push_screen(Help([_PLACES[self.panes.pane]], self.keymap))

    def begin_new(self, workspace: str) -> None:
        """Go where another session begins, where there are many."""

    def action_sessions(self) -> None:
        """Say where the list is: this shows one session."""
        self.told("info", "this shows one session; `prsm` alone shows all of them")

    def action_tree(self) -> None:
        self.panes.go_to("tree")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave letters to where they are typed."""
        if action not in {"type", "filter"}:
            return super().check_action(action, parameters)
        panes = self.panes
        if self.screen is not panes or panes.is_filtering:
            return False
        return panes.pane in parameters

    def action_filter(self, pane: str) -> None:
        (self.panes.agents if pane == "tree" else self.panes.transcript).begin_filter()

    def action_type(self, _: str) -> None:
        self.panes.go_to("prompt")

    def action_leave(self) -> None:
        """Leave at the second time; the first says what becomes of the run."""
        now = time.monotonic()
        if self._left_at is not None and now - self._left_at <= LEAVE_SECONDS:
            self.exit()
            return
        self._left_at = now
        key = self.keymap.first("app.leave")
        self.told("warning", f"{key} again leaves: {self._what_follows()}")

    def _what_follows(self) -> str:
        return self.session.what_follows(owns=self.owns)

    def _tick(self) -> None:
        """Draw times again, as long as something runs or waits."""
        if isinstance(self._driver, TerminalDriver) and self._driver.has_gone:
            self.exit()
        silence = self.panes.silence.news(self._clock())
        if silence:
            self.told("warning", silence)
        if self.session.requests or ((run := self.session.run) is not None and run.is_open):
            self._draw()

    def _draw(self) -> None:
        if self._loop is None or self.is_lent or not self.is_running or not self.panes.is_mounted:
            return
        now, self._drawn_at = self._clock(), self._loop.time()
        master = self.session.master()
        if not self._is_chosen and master is not None and self.chosen != master.id:
            self._choose(master.id)
        panes = self.panes
        panes.agents.sync(now)
        panes.head.sync(self.chosen, now)
        panes.transcript.sync()
        panes.show_lines(self._to_whom(), panes.agents.title, panes.transcript.title)
        panes.status.sync(now, new=panes.transcript.new, elsewhere=self._elsewhere())
        if isinstance(self.screen, NeedsYou | Place):
            self.screen.sync(now)
        self._tell_terminal()

    def _choose(self, agent: str | None) -> None:
        """Show an agent, or the session; what was typed for the one before is kept for it."""
        self.chosen = agent
        known = self.session.agents.get(agent or "")
        model = self.session.transcript_of(agent)
        self.panes.prompt.turn_to(agent)
        self.panes.agents.choose(agent)
        if self.panes.transcript.model is not model:
            self.panes.transcript.show(model)
        if known is not None and not known.transcript.is_whole and len(model) < ENOUGH_BLOCKS:
            self.panes.transcript.post_message(messages.HistoryWanted())
        self.changed()

    def _to_whom(self) -> str:
        about = self.session, self.chosen, self.delivery, self.keymap
        parts = to_whom(*about, is_one_of_many=self.many is not None)
        return fitting(list(parts), self.panes.to.size.width or self.size.width)

    def _tell_terminal(self) -> None:
        """Set the terminal's title; ring where something new waits and nobody looks."""
        title, waiting = self._title_now()
        why = self._why_notify(waiting)
        if self._driver is not None:
            rings = self.notifies and not self.app_focus
            self.attention.tell(self._driver, title, why if rings else "")
        self.attention.waiting = waiting

    def _title_now(self) -> tuple[str, int]:
        """Return the terminal's title, and how much waits for the person."""
        return title_of(self.session), len(self.session.requests)

    def _elsewhere(self) -> str:
        """Return what other sessions do, blank where there are none."""
        return ""

    def _why_notify(self, waiting: int) -> str:
        """Return what a person who looks elsewhere should know, blank for nothing new."""
        return self.attention.news(self.session, waiting)

    def ask(self, question: str, do: Callable[[], None]) -> None:
        """Do something once the person has said yes."""

        def answered(is_sure: bool | None) -> None:
            if is_sure:
                do()

        _ = self.push_screen(Sure(question, self.keymap), answered)

    @property
    def failure(self) -> Exception | None:
        """What went wrong in the screen itself."""
        return self._exception

    def _fatal_error(self) -> None:
        """Close the screen; whoever runs it raises what went wrong, without anybody's values."""
        self._close_messages_no_wait()


_BETWEEN = " · "


def to_whom(
    session: Session, chosen: str | None, delivery: str, keymap: Keymap, *, is_one_of_many: bool
) -> Iterator[str]:
    """Yield to whom what is typed goes, and how, the most important first.

    `is_one_of_many`: whole sessions can be gone on with.
    """
    agent, run, master = session.agents.get(chosen or ""), session.run, session.master()
    if run is not None and run.status == "interrupted" and is_one_of_many:
        yield "the run was cut off or ended: /resume goes on with the run"
        return
    if agent is not None and agent.is_live:
        yield f"to {agent.name} ({agent.models})"
        yield f"{delivery} ({keymap.shown('prompt.delivery')})"
    elif agent is not None and agent is not master:
        yield f"{agent.name} has ended: /restart TEXT starts it again"
        return
    elif run is not None and run.is_open:
        yield "a run is open: choose an agent to talk to"
        return
    elif master is not None:
        yield f"to {'the master' if agent is None else agent.name} ({master.models})"
        yield "as a further task"
    elif session.next_model:
        yield f"a task for a master of {escape_exact(session.next_model)}"
        yield "/model default takes that back"
    else:
        yield "a task, with which a run begins"
        yield f"model: {session.asked_model or 'as configured'} (/model)"
    if session.images:
        yield f"images: {len(session.images)} (/attach)"
    yield f"{keymap.shown('prompt.send')} sends"
    yield f"{keymap.first('prompt.new_line') or 'none'}: a new line"


def fitting(parts: Sequence[str], width: int) -> str:
    """Return as many parts as fit into a row of so many cells; the first at any rate."""
    line = parts[0]
    for part in parts[1:]:
        if cell_len(line) + len(_BETWEEN) + cell_len(part) > width:
            break
        line = f"{line}{_BETWEEN}{part}"
    return line


class Sure(ModalScreen[bool]):
    """Asks; one key is yes, any other is no."""

    DEFAULT_CSS = """
    Sure { align: center middle; background: $background 0%; }
    Sure > Vertical { width: 70%; height: auto; border: solid $warning; padding: 0 1; }
    Sure Static { width: 100%; height: auto; }
    """

    def __init__(self, question: str, keymap: Keymap) -> None:
        super().__init__()
        self._keymap = keymap
        self._question = question
        self._is_clicked = False  # on yes, once

    def compose(self) -> ComposeResult:
        self._answers = Static(self._links(f"{self._keymap.shown('sure.yes')} yes"))
        with Vertical():
            yield Static(self._question, markup=False)
            yield self._answers

    def on_key(self, event: events.Key) -> None:
        """Take the answer."""
        event.stop()
        _ = self.dismiss(self._keymap.means(SURE, event.key) == "sure.yes")

    def action_yes(self) -> None:
        """Take the second click for a yes: the first may be one that brought the window back."""
        if self._is_clicked:
            _ = self.dismiss(True)
            return
        self._is_clicked = True
        self._answers.update(self._links("click once more: yes"))

    def action_no(self) -> None:
        _ = self.dismiss(False)

    @staticmethod
    def _links(yes: str) -> str:
        return f"[@click=screen.yes]{escape(yes)}[/] · [@click=screen.no]any other key: no[/]"


def notification(text: str, environ: Mapping[str, str]) -> str:
    """Return what makes a terminal ring, and show a line where it is known how it does that.

    Those that know several ways would show the line several times, so it is told in one.
    """
    said = "".join(letter for letter in text if letter.isprintable()).replace(";", ",")
    told = _sequence(said, environ)
    if told and environ.get("TMUX"):  # tmux passes on what is wrapped so, where it is let
        told = f"\x1bPtmux;{told.replace(chr(27), chr(27) * 2)}{_END}"
    return BELL + told


def _sequence(said: str, environ: Mapping[str, str]) -> str:
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "").lower()
    if "KITTY_WINDOW_ID" in environ or "kitty" in term:
        return f"\x1b]99;;{said}{_END}"
    if program in _BY_PROGRAM or "WT_SESSION" in environ:
        return f"\x1b]9;{said}{_END}"
    if "VTE_VERSION" in environ or term.startswith(("rxvt", "foot")):
        return f"\x1b]777;notify;prsm;{said}{_END}"
    return ""


class Attention:
    """Owns what the terminal was told, and what was so when it was."""

    def __init__(self) -> None:
        self.waiting = 0  # how much waited, in all sessions
        self._own = 0  # … in the one that is shown
        self._was_open = False  # its run
        self._title = ""

    def forget(self) -> None:
        """Begin anew, with another session."""
        self._own, self._was_open = 0, False

    def news(self, session: Session, waiting: int) -> str:
        """Return what a person who looks elsewhere should know, blank for nothing new."""
        run, own = session.run, len(session.requests)
        was_open, self._was_open = self._was_open, run is not None and run.is_open
        before, self._own = self._own, own
        if own > before:
            newest = list(session.requests.values())[-1]
            return f"{waiting} need you: {session.name_of(newest.agent)}: {newest.head[:80]}"
        if waiting > self.waiting:
            return f"{waiting} need you"
        if was_open and not self._was_open and run is not None:
            return f"the run is {run.status}"
        return ""

    def tell(self, driver: Driver, title: str, why: str) -> None:
        """Give the terminal its title; ring, and tell it, where there is a reason."""
        if title != self._title and not driver.is_headless:
            driver.write(f"\x1b]0;{title}\x07")
        self._title = title
        if why:
            driver.write(notification(why, os.environ))


class Commanding:
    """Knows what each command is; each returns why it was not done, blank if it was."""

    def __init__(self, tui: Tui, acts: Acts) -> None:
        self._tui = tui
        self._acts = acts
        go, many = tui.action_place, self._many
        self._doing: Mapping[str, Callable[[str], str | None]] = {
            "help": lambda _: tui.action_help(),
            "open": self._open,
            "kill": self._kill_named,
            "restart": self._restart,
            "stop": lambda _: tui.ask(
                "End the run as interrupted? Its agents are killed.", acts.stop
            ),
            "model": self._model,
            "mode": acts.mode,
            "attach": acts.attach,
            "fork": lambda _: acts.fork(),
            "snapshot": lambda what: acts.files.take_snapshot(what) if what else go("snapshots"),
            "quit": lambda _: tui.action_leave(),
            "sessions": many(lambda hub, _: hub.leave()),
            "new": many(lambda _, folder: tui.begin_new(folder)),
            "resume": many(lambda hub, _: hub.resume(tui.session.id)),
            "rename": many(lambda hub, name: hub.rename(tui.session.id, name)),
            "export": self._export,
            **{place: self._going_to(place) for place in _SCREENS},
        }

    def do(self, command: Typed) -> str:
        """Do what a command says."""
        doing = self._doing.get(command.name)
        return unknown(command.name) if doing is None else doing(command.rest) or ""

    def kill(self, agent_id: str) -> str:
        """Kill an agent and all below it, once the person is sure."""
        session = self._tui.session
        agent = session.agents[agent_id]
        if not agent.is_live:
            return f"{agent.name} has ended already"
        below = sum(one.is_live for one in session.below(agent_id))
        others = f" and the {below} below it" if below else ""
        self._tui.ask(f"Kill {agent.name}{others}?", lambda: self._acts.kill(agent_id))
        return ""

    def _open(self, name: str) -> str:
        if name == "session":
            self._tui.choose(None)
            return ""
        agent = self._named(name)
        if agent is None or not name:
            return f"there is no agent {name}" if name else "which agent? /open AGENT"
        self._tui.choose(agent.id)
        return ""

    def _kill_named(self, name: str) -> str:
        agent = self._named(name)
        if agent is None:
            return f"there is no agent {name}" if name else "no agent is chosen"
        return self.kill(agent.id)

    def _restart(self, prompt: str) -> str:
        agent = self._named("")
        if agent is None or agent.is_live or not prompt:
            return "choose an agent that has ended, then: /restart TEXT"
        self._acts.restart(agent.id, prompt)
        return ""

    def _model(self, name: str) -> None:
        if name:
            self._acts.looks.choose_model(name, self._tui.chosen)
        else:
            self._tui.action_place("models")

    def _export(self, output: str) -> str:
        many, session = self._tui.many, self._tui.session.id
        if many is None:
            return f"from here nothing is exported: `prsm export {session}` writes it"
        if not output:
            return "to which file? /export FILE"
        many.export(session, output)
        return ""

    def _going_to(self, place: str) -> Callable[[str], None]:
        return lambda _: self._tui.action_place(place)

    def _many(self, act: Callable[[HubActs, str], None]) -> Callable[[str], str | None]:
        """Return what does something with whole sessions, where there are many."""

        def do(rest: str) -> str | None:
            if self._tui.many is None:
                return "this shows one session: `prsm` alone shows all, and can do that"
            act(self._tui.many, rest)
            return None

        return do

    def _named(self, name: str) -> Agent | None:
        """Return the agent of a name, the newest of several; without one, the chosen one."""
        agents = self._tui.session.agents
        if not name:
            return agents.get(self._tui.chosen or "")
        fitting = [agent for agent in agents.values() if agent.name == name.removeprefix("@")]
        return fitting[-1] if fitting else None
