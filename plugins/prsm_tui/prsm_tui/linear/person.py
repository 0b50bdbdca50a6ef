"""What a person typed, as acts, and what became of these, as lines: requests, changes, snapshots.

What is typed goes to the agent that is selected, or answers the request that the person has gone
to. A line counts for what was there when its first key was pressed; for anything else it is
dropped, and that is said. Every change of what is selected is said.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from prsm_core.kit import escape_exact, format_duration
from prsm_tui.acts import DELIVERIES
from prsm_tui.commands import Typed, read_command, unknown
from prsm_tui.leaving import what_follows
from prsm_tui.linear.commands import LINEAR, MANY, PAGES, help_lines
from prsm_tui.linear.desk import is_yes, numbered
from prsm_tui.linear.phrases import count, whole
from prsm_tui.linear.telling import Teller
from prsm_tui.linear.unedited import Unedited
from prsm_tui.model.comments import Comment, addressee, sending
from prsm_tui.model.patches import ADDED, HUNK, REMOVED, SAME
from prsm_tui.model.requests import (
    LETTERS,
    PERMISSION,
    Request,
    parse_answer,
    parse_for_all,
    parse_verdict,
)
from prsm_tui.model.review import without_unsure
from prsm_tui.model.silence import Silence
from prsm_tui.model.words import state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prsm_tui.acts import Acts
    from prsm_tui.commands import Command
    from prsm_tui.linear.desk import Desk
    from prsm_tui.linear.keyboard import Keyboard
    from prsm_tui.linear.page import Page
    from prsm_tui.model.agents import Agent
    from prsm_tui.model.patches import PatchLine
    from prsm_tui.model.review import Change, Detail
    from prsm_tui.model.session import Session
    from prsm_tui.model.shelf import Plan, Snapshot

LEAVE_SECONDS = 5.0  # within which the second Ctrl+C leaves
_TOO_LONG = 7  # digits of a number that names one of what was shown
_NOBODY = "nobody is asked here: what the command line says answers (--on-ask)"

_LETTER = re.compile(r"\[(\w+)\]( ?)")

_DOES: Mapping[str, str] = {
    "+": "comes back",
    "-": "goes",
    "~": "changes",
    "%": "changes permissions",
}

_MOST = 100  # rows that are told at once
_COMMENT = re.compile(r"(\d{1,6})\s+(\d{1,6})(?:\s*-\s*(\d{1,6}))?\s+(\S.*)", re.DOTALL)
_HOW = "a change, its rows and a text, such as: 2 3-5 why?"
_LINE_DOES: Mapping[str, str] = {ADDED: "comes", REMOVED: "goes", SAME: "stays"}


class Person(Unedited):
    """Owns what is selected, and where the person is."""

    def __init__(
        self,
        session: Session,
        page: Page,
        now: Callable[[], float],
        *,
        answers: bool = True,
        owns: bool = True,
        more: Mapping[str, tuple[Command, Callable[[str], None]]] | None = None,
    ) -> None:
        """Begin with nothing selected.

        Args:
            session: What is told.
            page: What is written to.
            now: The time, in Unix seconds.
            answers: Whether a person may answer.
            owns: Whether the session's runs end with this process.
            more: Further commands, of who has many sessions.
        """
        self._more = more or {}
        self._known = {**LINEAR, **{name: one for name, (one, _) in self._more.items()}}
        self.session, self.owns = session, owns
        self.acts: Acts | None = None  # given before anything is typed
        self.keyboard: Keyboard | None = None
        self.leave: Callable[[], None] = lambda: None
        self._page = page
        self._now = now
        self._answers = answers
        self._teller = Teller(session)
        self._chosen: str | None = None
        self._is_chosen = False  # by the person, rather than by who leads
        self._was_live = False
        self._at: Request | None = None  # where a line is an answer
        self._sure: Callable[[], None] | None = None  # what is done on a yes
        self._meant: object = None  # where the person was when the line was begun
        self.delivery = DELIVERIES[0]
        self._left_at: float | None = None
        self._unsent: list[str] = []
        self._silence = Silence(session)
        self._files = Reviewing(self), Shelving(self)
        self._pages_asked: list[str] = []  # and not told, in the order of their coming
        self._pages_told = 0

    def begin(self, switch: str = "") -> None:
        """Say what turned the mode on, unless that was said, and what there is."""
        lines = [f"linear mode: on, by {switch}; /help tells the commands"] if switch else []
        self._page.say([*lines, *self._teller.beginning()])
        self.changed()
        if self._chosen is None:
            self._page.say([f"selected: the session; {self._to_whom()}"])

    def changed(self) -> None:
        """Tell what is new, and who is selected now."""
        lines = [*self._teller.news(), *self._ended_elsewhere(), *self._pages()]
        lines += [line for part in self._files for line in part.news()]
        master = self.session.master()
        if not self._is_chosen and master is not None and master.id != self._chosen:
            self._chosen = master.id
            lines.append(self._selected())
        known = self.session.agents.get(self._chosen or "")
        if known is not None and self._was_live and not known.is_live:
            lines.append(self._selected())
        self._was_live = known is not None and known.is_live
        self._page.say(lines)

    def tick(self) -> None:
        """Say it once where nothing is heard of a run for long."""
        silence = self._silence.news(self._now())
        if silence:
            self.told("warning", silence)

    def say(self, lines: Iterable[str]) -> None:
        """Write lines."""
        self._page.say(lines)

    def over(self, why: str) -> None:
        """Say that nothing more comes."""
        self.told("error", f"nothing more comes: {why}")

    def drafts(self) -> Sequence[str]:
        """Return what was typed and reached nobody."""
        draft = "" if self.keyboard is None else self.keyboard.draft
        kept = [comment.text for comment in self.session.review.kept.values()]
        return [*self._unsent, *kept, *filter(str.strip, [draft])]

    # What became of acts.

    def told(self, level: str, text: str) -> None:
        """Say what became of an act."""
        self._page.tell(level, text)

    def unsent(self, agent: str | None, text: str) -> None:
        """Say that a text reached nobody; it is printed again at the end."""
        self._unsent.append(text)
        self._page.say([f"prsm: not sent to {self._teller.label(agent)}: {text.splitlines()[0]}"])

    def unanswered(self, request: str) -> None:
        """Say that an answer did not get through."""
        number = self._teller.number_of(request)
        self._page.say([f"needs you: request {number} still waits; type /needs {number}"])

    def paged(self, agent: str) -> None:
        """Tell a page of history."""
        self._page.say(self._teller.history(agent))

    # What is typed.

    def begun(self) -> None:
        """Note what the line is for."""
        self._meant = self._at or self._sure

    def added(self, draft: str, key: str) -> None:
        """Show a key."""
        self._page.typed(draft, key)

    def erased(self, draft: str, erased: str) -> None:
        """Take signs off."""
        self._page.erased(draft, erased)

    def entered(self, line: str) -> None:
        """Do what a line says."""
        self._page.end_line()
        typed, meant, self._meant = line.strip(), self._meant, None
        if not typed:
            return
        if meant is not (self._at or self._sure):
            self.told("warning", f"not used: {typed!r}: what it was for has ended")
            return
        if self._sure is not None:
            self._confirm(typed)
            return
        command = read_command(typed)
        if command is not None:
            self._command(command)
        elif self._at is not None:
            self._answer(self._at, typed)
        elif self.acts is not None:
            self.acts.say(self._chosen, line, self.delivery)

    def left(self, *, at_once: bool) -> None:
        """Leave at the second time; the first says what becomes of the run."""
        now = self._now()
        is_second = self._left_at is not None and now - self._left_at <= LEAVE_SECONDS
        if at_once or is_second:
            self._page.end_line()
            self.leave()
            return
        self._left_at = now
        follows = what_follows(self.session, owns=self.owns)
        self._page.end_line()
        self.told("warning", f"Ctrl+C again leaves: {follows}")

    def _command(self, command: Typed) -> None:
        doing: Mapping[str, Callable[[str], None]] = {
            "help": lambda _: self._page.say(help_lines(self._known)),
            "agents": lambda _: self._agents(),
            "open": self._open,
            "needs": self._needs,
            "back": lambda _: self._back(),
            "show": self._show,
            "history": lambda _: self._history(),
            "deliver": self._deliver,
            "kill": self._kill,
            "quit": lambda _: self.left(at_once=False),
            **{name: do for part in self._files for name, do in part.commands.items()},
            **self._acting(),
            **{name: do for name, (_, do) in self._more.items()},
        }
        if command.name in doing:
            doing[command.name](command.rest)
        elif command.name in MANY:
            self.told("warning", f"/{command.name} is of `prsm` alone, which has all sessions")
        else:
            self.told("warning", unknown(command.name, self._known))

    def _acting(self) -> Mapping[str, Callable[[str], None]]:
        """Return the commands that are acts, each with one argument at most."""
        acts = self.acts
        if acts is None:
            return {}
        return {
            "restart": self._restart,
            "stop": lambda _: self.ask(
                "end the run as interrupted, with its agents killed", acts.stop
            ),
            **{name: self._looking(name) for name in PAGES},
            "mode": acts.mode,
            "attach": acts.attach,
            "model": self._model,
            "fork": lambda _: acts.fork(),
        }

    def _model(self, name: str) -> None:
        """Choose a model, or tell of all which is in force."""
        if name and self.acts is not None:
            self.acts.looks.choose_model(name, self._chosen)
        else:
            self._looking("models")("")

    def _looking(self, name: str) -> Callable[[str], None]:
        """Return what asks for a page, which is told once it is there."""

        def look(_: str) -> None:
            if self.acts is not None:
                self._pages_asked.append(name)
                self.acts.looks.load(name)

        return look

    def _pages(self) -> Iterator[str]:
        """Yield the lines of the pages that were asked for and have come."""
        boards = self.session.boards
        new, self._pages_told = boards.version - self._pages_told, boards.version
        for name in self._pages_asked[:new]:
            yield from (f"{name}: {row}" for one in boards.pages[name].lines if (row := one.text))
        del self._pages_asked[:new]

    def _agents(self) -> None:
        rows = [self._teller.agent_line(agent) for agent in self.session.rows()]
        self._page.say([*(rows or ["agents: none yet"]), self._selected()])

    def _open(self, name: str) -> None:
        agent = self._named(name)
        if agent is None and name != "session":
            self.told(
                "warning", f"there is no agent {name or 'without a name'}; /agents tells them"
            )
            return
        self._is_chosen, self._at = True, None
        self._chosen = None if agent is None else agent.id
        self._was_live = agent is not None and agent.is_live
        self._page.say([self._selected()])

    def _needs(self, number: str) -> None:
        """Go to a request; what was typed before it was told is none of it."""
        waiting = self.session.requests
        wanted = next(iter(waiting), None)
        if number:
            known = self._teller.requests
            place = _place(number)
            wanted = known[place - 1] if 1 <= place <= len(known) else ""
        request = waiting.get(wanted or "")
        if request is None:
            self.told("info", f"request {number} does not wait" if number else "nothing waits")
            return
        self._at = request if self._answers else None
        lead = f"request {self._teller.number_of(request.id)}"
        permissions = sum(one.kind == PERMISSION for one in waiting.values())
        lines = [*lines_of(request, self.session, self._now(), permissions)]
        if not self._answers:
            lines[-1] = _NOBODY
        self._forget_typed()
        self._page.say([f"selected: {lead} of {len(waiting)} that wait"])
        self._page.say(f"{lead}: {line}" for line in lines)

    def _back(self) -> None:
        self._at = None
        self._page.say([self._selected()])

    def _answer(self, request: Request, typed: str) -> None:
        if self.acts is None:
            return
        if request.kind != PERMISSION:
            if parse_answer(typed, request) is None:
                self.told("warning", "that is none of the choices")
                return
            self.acts.answer(request.id, typed)
        else:
            permissions = [
                one.id for one in self.session.requests.values() if one.kind == PERMISSION
            ]
            verdict, is_for_all = verdict_of(typed, request, is_one_of_many=len(permissions) > 1)
            if verdict is None:
                self.told("warning", "that is none of the choices")
                return
            asked = permissions if is_for_all else [request.id]
            options = self.session.requests
            self.acts.resolve([one for one in asked if verdict in options[one].options], verdict)
        self._back()

    def _ended_elsewhere(self) -> Sequence[str]:
        if self._at is None or self._at.id in self.session.requests:
            return ()
        number = self._teller.number_of(self._at.id)
        self._at = None
        return [f"request {number}: it has ended, not by you", self._selected()]

    def _show(self, number: str) -> None:
        shown = self._teller.shown
        place = _place(number)
        if not 1 <= place <= len(shown):
            self.told("warning", f"/show takes a number up to {len(shown)}")
            return
        self._page.say(f"number {place}: {line}" for line in whole(shown[place - 1]))

    def _history(self) -> None:
        if self._chosen is None or self.acts is None:
            self.told("warning", "which agent? /open AGENT selects one")
        elif self.session.agents[self._chosen].transcript.is_whole:
            self._page.say(self._teller.history(self._chosen))
        else:
            self._teller.await_page(self._chosen)
            self.acts.page(self._chosen)

    def _deliver(self, how: str) -> None:
        if how not in DELIVERIES:
            self.told("warning", f"the ways are: {', '.join(DELIVERIES)}")
            return
        self.delivery = how
        self._page.say([self._selected()])

    def _kill(self, name: str) -> None:
        agent = self._named(name) if name else self.session.agents.get(self._chosen or "")
        if agent is None or self.acts is None:
            self.told("warning", f"there is no agent {name}" if name else "no agent is selected")
            return
        if not agent.is_live:
            self.told("warning", f"{self._teller.label(agent.id)} has ended already")
            return
        below = sum(one.is_live for one in self.session.below(agent.id))
        others = f" and the {below} below it" if below else ""
        kill = self.acts.kill
        self.ask(f"kill {self._teller.label(agent.id)}{others}", lambda: kill(agent.id))

    def _restart(self, prompt: str) -> None:
        agent = self.session.agents.get(self._chosen or "")
        if agent is None or agent.is_live or not prompt or self.acts is None:
            self.told("warning", "select an agent that has ended, then: /restart TEXT")
            return
        self.acts.restart(agent.id, prompt)

    def ask(self, what: str, do: Callable[[], None]) -> None:
        """Do something once the person has said yes; what they type next is the answer."""
        self._at, self._sure = None, do
        self._forget_typed()
        self._page.say([f"sure: {what}?", "sure: choice 1: yes", "sure: choice 2: no"])

    def _forget_typed(self) -> None:
        """Drop what was typed so far, before a choice is shown: afterwards it may be an answer."""
        if self.keyboard is not None:
            self.keyboard.forget()

    def _confirm(self, typed: str) -> None:
        do, self._sure = self._sure, None
        if do is not None and is_yes(typed):
            do()
            return
        self.told("info", "not done")
        self._page.say([self._selected()])

    def _named(self, name: str) -> Agent | None:
        """Return an agent by its number or its name; the newest of several."""
        known = self._teller.agents
        if 1 <= (place := _place(name)) <= len(known):
            return self.session.agents[known[place - 1]]
        agents = self.session.agents.values()
        fitting = [agent for agent in agents if name and agent.name == name.removeprefix("@")]
        return fitting[-1] if fitting else None

    def _selected(self) -> str:
        agent = self.session.agents.get(self._chosen or "")
        if agent is None:
            return f"selected: the session; {self._to_whom()}"
        number = self._teller.agents.index(agent.id) + 1
        _, word = state_of(agent, asks=self.session.asks(agent.id))
        return f"selected: agent {number}, {agent.name}, {word}; {self._to_whom()}"

    def _to_whom(self) -> str:
        """Return what becomes of what is typed."""
        agent, run = self.session.agents.get(self._chosen or ""), self.session.run
        master, comes = self.session.master(), escape_exact(self.session.next_model)
        if agent is not None and agent.is_live:
            return f"what you type goes to it ({self.delivery})"
        if agent is not None and agent is not master:
            return "it has ended: /restart TEXT starts it again"
        if run is not None and run.is_open:
            return "a run is open: select an agent to talk to"
        if master is not None:
            return f"what you type is a further task of {master.name} ({master.models})"
        if comes:
            return f"what you type is a task for a master of {comes}"
        return "what you type is a task, with which a run begins"


def _place(number: str) -> int:
    """Return which one a person has named by its number; 0 for what is none, or too long a one."""
    is_number = number.isascii() and number.isdigit() and len(number) < _TOO_LONG
    return int(number) if is_number else 0


def lines_of(request: Request, session: Session, now: float, count: int) -> Iterator[str]:
    """Yield all of a request, one of `count` that wait; `now` in Unix seconds."""
    agent = session.agents.get(request.agent)
    yield f"agent: {' / '.join(session.path_of(request.agent))}"
    if agent is not None:
        yield f"model: {agent.label}"
        if agent.task:
            yield f"task: {agent.task}"
    if request.expires_at is not None:
        yield f"time left: {format_duration(max(0.0, request.expires_at - now))}"
    choices = choices_of(request)
    if request.kind == PERMISSION:
        yield from request.lines
    else:  # its options are the choices
        yield from request.lines[: len(request.lines) - len(choices)]
    for number, choice in enumerate(choices, start=1):
        yield f"choice {number}: {choice}"
    if request.kind == PERMISSION and count > 1:
        yield f"for all {count} that wait: oo allows them once, dd denies them"
    yield _how(request, bool(choices))


def choices_of(request: Request) -> Sequence[str]:
    """Return the answers a request offers, in words, in the order of their numbers."""
    if request.kind != PERMISSION:
        return [str(option) for option in request.options]
    return [_word(LETTERS[option][1]) for option in _verdicts(request)]


def verdict_of(typed: str, request: Request, *, is_one_of_many: bool) -> tuple[str | None, bool]:
    """Return the verdict that was typed, None if it is unclear, and whether it is for all."""
    for_all = parse_for_all(typed) if is_one_of_many else None
    if for_all is not None:
        return for_all, True
    verdicts, word = _verdicts(request), typed.strip()
    if word.isascii() and word.isdigit():
        place = int(word) - 1 if len(word) < 4 else -1
        return (verdicts[place] if 0 <= place < len(verdicts) else None), False
    return parse_verdict(typed, request.options), False


def _verdicts(request: Request) -> Sequence[str]:
    return [option for option in LETTERS if option in request.options]


def _word(label: str) -> str:
    return _LETTER.sub(lambda found: "" if found[2] else found[1], label)


def _how(request: Request, has_choices: bool) -> str:
    if request.kind == PERMISSION:
        return "type the number of a choice, then Enter; /back leaves it open"
    some = "numbers" if request.takes_several else "the number"
    what = f"{some} of a choice, or a text" if has_choices else "a text"
    return f"type {what}, then Enter; /back leaves it open"


class Shelving:
    """Knows the numbers of snapshots, and what is told once it was read."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._numbers: list[str] = []  # ids of snapshots: the first is snapshot 1
        self._listing: int | None = None  # how often they had been read when they were asked for
        self._planned: str | None = None  # the snapshot whose restore was asked for

    @property
    def commands(self) -> Mapping[str, Callable[[str], None]]:
        """What can be typed, by its name."""
        return {
            "snapshots": lambda _: self._ask_all(),
            "snapshot": self._take,
            "restore": self._ask_plan,
            "undo": lambda _: self._undo(),
        }

    def news(self) -> Iterator[str]:
        """Yield what was asked for and has been read; ask about a restore that was planned."""
        shelf = self._desk.session.shelf
        if self._listing is not None and shelf.reads != self._listing:
            self._listing = None
            yield from self._list()
        if self._planned is not None and self._planned in shelf.plans:
            snapshot, self._planned = self._planned, None
            plan = shelf.plans[snapshot]
            yield from self._plan(snapshot, plan)
            acts = self._desk.acts
            if plan.lines and acts is not None:
                what = f"restore {self._label(snapshot)}"
                self._desk.ask(what, lambda: acts.files.restore(snapshot))

    def _ask_all(self) -> None:
        if self._desk.acts is not None:
            self._listing = self._desk.session.shelf.reads
            self._desk.acts.files.load_snapshots()

    def _list(self) -> Iterator[str]:
        shelf = self._desk.session.shelf
        if shelf.error:
            yield f"snapshots: {shelf.error}"
            return
        told = "none" if not shelf.snapshots else f"{len(shelf.snapshots)}, the newest first"
        yield f"snapshots: {told}; /restore NUMBER tells what one would change, and asks"
        yield from (f"{self._label(one.id)}: {_told(one)}" for one in shelf.snapshots)

    def _take(self, description: str) -> None:
        if not description:
            self._ask_all()
        elif self._desk.acts is not None:
            self._desk.acts.files.take_snapshot(description)

    def _ask_plan(self, number: str) -> None:
        found, acts = numbered(number, self._numbers), self._desk.acts
        if not found or len(found) > 1 or acts is None:
            self._desk.told("warning", "which snapshot? /snapshots tells their numbers")
            return
        self._planned = found[0]
        self._desk.session.shelf.plans.pop(found[0], None)  # files may be others by now
        acts.files.plan(found[0])

    def _plan(self, snapshot: str, plan: Plan) -> Iterator[str]:
        label = self._label(snapshot)
        yield f"{label}: {plan.error or plan.summary}"
        for line in plan.lines:
            sign, _, path = line.partition(" ")
            yield f"{label}: {f'{path} {_DOES[sign]}' if sign in _DOES else line}"

    def _undo(self) -> None:
        acts = self._desk.acts
        if acts is not None:
            self._desk.ask("take back what was done to files last", acts.files.undo_act)

    def _label(self, snapshot: str) -> str:
        """Return what lines of a snapshot begin with: it keeps its number."""
        if snapshot not in self._numbers:
            self._numbers.append(snapshot)
        return f"snapshot {self._numbers.index(snapshot) + 1}"


def _told(one: Snapshot) -> str:
    when = time.strftime("%H:%M:%S", time.localtime(one.taken_at))
    unquiet = f"; an agent wrote meanwhile: {', '.join(one.unquiet)}" if one.unquiet else ""
    about = f", {one.description}" if one.description else ""
    return f"{one.kind}, at {when}{about}{unquiet}"


class Reviewing:
    """Knows the numbers of changes, and what is told once it was read."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._numbers: list[str] = []  # ids of changes: the first is change 1
        self._listing: tuple[int, bool] | None = None  # reads before, and whether all are told
        self._sending: int | None = None  # reads before
        self._lines: list[tuple[str, int]] = []  # of which changes, from which rows on

    @property
    def commands(self) -> Mapping[str, Callable[[str], None]]:
        """What can be typed, by its name."""
        return {
            "changes": self._changes,
            "lines": self._tell_lines,
            "accept": self._accept,
            "reject": self._reject,
            "comment": lambda rest: self._comment(rest, sends=True),
            "keep": lambda rest: self._comment(rest, sends=False),
            "review": lambda _: self._send(),
        }

    def news(self) -> Iterator[str]:
        """Yield what was asked for and has been read."""
        review = self._desk.session.review
        if self._listing is not None and review.reads != self._listing[0]:
            (_, shows_all), self._listing = self._listing, None
            yield from self._list(shows_all=shows_all)
        if self._sending is not None and review.reads != self._sending:
            self._sending = None
            self._ask_to_send()
        while self._lines and self._lines[0][0] in review.details:
            change, first = self._lines.pop(0)
            known = review.find(change)
            if known is not None:
                yield from self._rows(known, review.details[change], first)

    def _changes(self, rest: str) -> None:
        if self._desk.acts is not None:
            self._listing = self._desk.session.review.reads, rest == "all"
            self._desk.acts.files.load()

    def _list(self, *, shows_all: bool) -> Iterator[str]:
        review = self._desk.session.review
        groups = review.groups("file", shows_all=shows_all)
        changes = [one for group in groups for one in group.changes]
        if review.error:
            yield f"changes: {review.error}"
            return
        what = "in all" if shows_all else "that nothing is decided about"
        yield f"changes: {len(changes)} {what}; /lines NUMBER tells one"
        for change in changes:
            yield f"{self._label(change)}: {_change_line(change)}"
        if review.kept:
            yield f"changes: comments that are not sent: {len(review.kept)}; /review sends them"

    def _tell_lines(self, rest: str) -> None:
        number, _, row = rest.partition(" ")
        change = self._change(number)
        first = int(row) if row.isascii() and row.isdigit() and len(row) < 7 else 1
        if change is None or self._desk.acts is None:
            self._desk.told("warning", "which change? /changes tells their numbers")
            return
        self._lines.append((change.id, max(1, first)))
        if change.id in self._desk.session.review.details:
            self._desk.say(self.news())
        else:
            self._desk.acts.files.open(change.id)

    def _rows(self, change: Change, detail: Detail, first: int) -> Iterator[str]:
        label = self._label(change)
        yield f"{label}: {_change_line(change)}"
        if detail.error or not detail.lines:
            yield f"{label}: {detail.error or change.note or 'it has no lines to tell'}"
            return
        if detail.reason and first == 1:
            why = " ".join(detail.reason.split())
            yield f"{label}: why, as {change.who} {detail.said} before: {why}"
        rows = list(enumerate(detail.lines, start=1))[first - 1 : first - 1 + _MOST]
        for number, line in rows:
            yield f"{label}, row {number}: {_row(line)}"
        left = len(detail.lines) - (first - 1 + len(rows))
        if left > 0:
            more = f"/lines {label.split()[1]} {first + len(rows)}"
            yield f"{label}: {left} more rows; {more} tells them"
        else:
            yield f"{label}: end of its rows"

    def _accept(self, rest: str) -> None:
        changes, acts = self._open(rest), self._desk.acts
        if not changes or acts is None:
            return
        ids = [one.id for one in changes]
        if len(ids) == 1:
            acts.files.accept(ids)
        else:
            self._desk.ask(f"accept {_counted(changes)}", lambda: acts.files.accept(ids))

    def _reject(self, rest: str) -> None:
        changes, acts = self._open(rest), self._desk.acts
        if not changes or acts is None:
            return
        changes, left = without_unsure(changes) if rest == "all" else (changes, "")
        if not changes:
            self._desk.told("warning", f"{left}; give their numbers")
            return
        ids = [one.id for one in changes]
        what = f"take back {_counted(changes)}" + (f" ({left})" if left else "")
        self._desk.ask(what, lambda: acts.files.reject(ids))

    def _open(self, rest: str) -> Sequence[Change]:
        """Return the changes that are meant and can be decided; else say why there are none."""
        review = self._desk.session.review
        if rest == "all":
            found = [one for one in review.changes if one.is_open and one.agent is not None]
        else:
            ids = numbered(rest, self._numbers)
            if ids is None:
                self._desk.told("warning", "which changes? Their numbers, or all; /changes")
                return ()
            known = filter(None, map(review.find, ids))
            found = [one for one in known if one.is_open]
        if not found:
            self._desk.told("warning", "there is nothing to decide")
        return found

    def _comment(self, rest: str, *, sends: bool) -> None:
        found = _COMMENT.fullmatch(rest)
        change = None if found is None else self._change(found[1])
        if found is None or change is None or self._desk.acts is None:
            self._desk.told("warning", f"a comment needs {_HOW}")
            return
        detail = self._desk.session.review.details.get(change.id)
        if detail is None:
            self._desk.told("warning", f"/lines {found[1]} tells its rows first")
            return
        rows = detail.lines[int(found[2]) - 1 : int(found[3] or found[2])] if int(found[2]) else ()
        lines = tuple(line for line in rows if line.is_content)
        to = addressee(self._desk.session, change)
        if not lines or isinstance(to, str):
            why = "these rows are no lines of the file" if not lines else str(to)
            self._desk.told("warning", f"not sent: {why}")
            return
        comment = Comment(change.id, lines, found[4].strip())
        self._desk.session.review.keep(comment)
        if sends:
            self._desk.acts.files.comment([comment], self._desk.delivery)
        else:
            self._desk.told("info", f"kept, not sent: {comment.short}; /review sends what is kept")

    def _send(self) -> None:
        """Have the changes read again: whose they are is to be known before comments are sent."""
        review, acts = self._desk.session.review, self._desk.acts
        if not review.kept or acts is None:
            self._desk.told("info", "no comment is kept; /keep keeps one")
            return
        self._sending = review.reads
        acts.files.load()

    def _ask_to_send(self) -> None:
        """Send the comments that are kept, once the person is sure."""
        acts, kept = self._desk.acts, list(self._desk.session.review.kept.values())
        if not kept or acts is None:
            return
        self._desk.say(f"review: {comment.short}" for comment in kept)
        delivery = self._desk.delivery
        question = sending(self._desk.session, kept).rstrip(".").replace("? ", ": ")
        question = question[:1].lower() + question[1:]
        self._desk.ask(question, lambda: acts.files.comment(kept, delivery))

    def _change(self, number: str) -> Change | None:
        found = numbered(number, self._numbers)
        return self._desk.session.review.find(found[0]) if found and len(found) == 1 else None

    def _label(self, change: Change) -> str:
        """Return what lines of a change begin with: it keeps its number."""
        if change.id not in self._numbers:
            self._numbers.append(change.id)
        return f"change {self._numbers.index(change.id) + 1}"


def _change_line(change: Change) -> str:
    removed = change.removed or 0
    size = "" if change.added is None else f", {count(change.added)} more, {count(removed)} less"
    beside = f"; conflict: {', '.join(change.beside)} changed it, too" if change.beside else ""
    why = f" since {change.why}" if change.why else ""
    return f"{change.path}, {change.kind} by {change.whose}{size}, {change.state}{why}{beside}"


def _row(line: PatchLine) -> str:
    if line.is_content:
        number = line.old if line.kind == REMOVED else line.new
        return f"line {number} {_LINE_DOES[line.kind]}: {line.text or '(blank)'}"
    return f"a part begins: {line.text}" if line.kind == HUNK else f"note: {line.text}"


def _counted(changes: Sequence[Change]) -> str:
    if len(changes) == 1:
        return f"the change of {changes[0].path} by {changes[0].whose}"
    return f"{len(changes)} changes of {len({one.path for one in changes})} files"
