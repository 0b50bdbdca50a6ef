"""The linear mode on a session, or on many: the list by numbers, and the session that is visited.

At the list a typed line is a task for a new session, in a visit it is for that session. What waits
in others is told as it comes.
"""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from prsm_core.kit import first_line
from prsm_tui.acts import Acts, owns_runs
from prsm_tui.commands import Command, read_command, unknown
from prsm_tui.hub_acts import HubActs
from prsm_tui.linear.commands import MANY, help_lines, number_of, numbered
from prsm_tui.linear.keyboard import Keyboard, columns_of
from prsm_tui.linear.page import Page
from prsm_tui.linear.person import AtPage, Person
from prsm_tui.model import words
from prsm_tui.model.session import Session
from prsm_tui.model.sessions import NEEDS_YOU, Sessions
from prsm_tui.pump import Pump
from prsm_tui.rounds import Rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from prsm_core import AppHandle, Hub
    from prsm_tui.model.review import Comment
    from prsm_tui.model.sessions import Listed

PAUSE_SECONDS = 5.0  # without a key, after which what comes is written though a line is begun

_OWN: Mapping[str, Command] = {
    "help": Command("/help", "these commands"),
    "quit": Command("/quit", "leave; what runs goes on"),
}


async def tell(
    app: AppHandle, switch: str, terminal: TextIO, keyboard: int, *, answers: bool
) -> tuple[Session, bool, Sequence[str]]:
    """Tell a session until its person leaves.

    Return it, whether its runs end with this process, and what was typed and not sent.
    """
    session = Session.of_view(await app.view(), time.time())
    owns = await owns_runs(app, session.id)
    page = Page(terminal, columns_of(terminal.fileno()))
    person = Person(session, page, time.time, answers=answers, owns=owns)
    person.acts = acts = Acts(app, session, person)
    acts.looks.owns = owns
    person.keyboard = Keyboard(keyboard, person, terminal)
    pump, left = Pump(app, session, person.changed), asyncio.Event()
    person.leave = left.set
    person.begin(switch)
    acts.begin()

    async def follow() -> None:
        await pump.follow()
        person.over(pump.why_over or "")

    works = [follow, pump.keep_spent, pump.keep_name, acts.serve, person.keyboard.serve]
    works += [pump.attend] if answers else []
    try:
        await _run(works, page, person, left)
    except ExceptionGroup as errors:
        if len(errors.exceptions) > 1:
            raise
        raise errors.exceptions[0] from None
    return session, owns, person.drafts()


async def tell_many(
    hub: Hub, switch: str, terminal: TextIO, keyboard: int, *, answers: bool
) -> Sequence[str]:
    """Tell many sessions until their person leaves; return what was typed and not sent."""
    page = Page(terminal, columns_of(terminal.fileno()))
    many, rounds = compose_many(hub, page, answers=answers)
    many.keyboard = Keyboard(keyboard, many, terminal)
    left = asyncio.Event()
    many.leave = left.set
    many.begin(switch)
    await _run([rounds.follow, many.acts.serve, many.keyboard.serve], page, many, left)
    return many.drafts()


async def _run(
    works: Sequence[Callable[[], Coroutine[Any, Any, None]]],
    page: Page,
    person: Person | Many,
    left: asyncio.Event,
) -> None:
    """Run all that serves a person, until they have left."""
    async with asyncio.TaskGroup() as group:
        helpers = [group.create_task(work()) for work in works]
        helpers.append(group.create_task(_flush_in_pauses(page, person.keyboard)))
        helpers.append(group.create_task(_tick(person)))
        await left.wait()
        for helper in helpers:
            helper.cancel()


def compose_many(hub: Hub, page: Page, *, answers: bool) -> tuple[Many, Rounds]:
    """Return what tells many sessions on a page, and what reads the list of them."""
    sessions = Sessions()
    many = Many(sessions, page, time.time, workspace=hub.options.workspace, answers=answers)
    many.acts = HubActs(hub, many, answers=answers)
    many.rounds = rounds = Rounds(hub, sessions, many.looked, answers=answers)
    return many, rounds


async def _flush_in_pauses(page: Page, keyboard: Keyboard) -> None:
    """Write what is held while nobody goes on with the line that is begun."""
    before = ""
    while True:
        await asyncio.sleep(PAUSE_SECONDS)
        if keyboard.draft and keyboard.draft == before:
            page.flush()
        before = keyboard.draft


async def _tick(person: Person | Many) -> None:
    while True:
        await asyncio.sleep(1.0)
        person.tick()


class Many(AtPage):
    """Owns whether the person is at the list or in a session, and the numbers of sessions."""

    def __init__(
        self,
        sessions: Sessions,
        page: Page,
        now: Callable[[], float],
        *,
        workspace: str,
        answers: bool = True,
    ) -> None:
        """Begin at the list; `workspace` is where a new session works unless a person says else."""
        super().__init__(page, now)
        # Both are given before anything is typed.
        self.acts: HubActs
        self.rounds: Rounds
        self.person: Person | None = None  # in the session that is visited
        self._sessions = sessions
        self._workspace, self._answers = workspace, answers
        self._numbers: list[str] = []  # ids of sessions: the first is session 1
        self._is_listed = False  # they were told once
        self._is_asked: bool | None = None  # … or asked for, and whether that is said, too
        self._told: dict[str, str] = {}  # the state of each that was told last
        self._kept: dict[str, dict[object, Comment]] = {}  # comments of sessions that were left

    def begin(self, switch: str) -> None:
        """Say what turned the mode on; the list follows once it is read."""
        self._page.say([f"linear mode: on, by {switch}; /help tells the commands"])

    # What changes.

    def looked(self) -> None:
        """Tell what is new in the list: all of it at first, then what begins to wait, or ends."""
        if not self._sessions.is_known:
            return
        if not self._is_listed:
            self._is_listed = True
            self._told = {one.id: _state(one) for one in self._sessions.listed}
            self._list()
        elif self._is_asked is not None:
            self._list(selects=self._is_asked)
        self._is_asked = None
        for one in self._sessions.listed:
            before, state = self._told.get(one.id), _state(one)
            self._told[one.id] = state
            if self.acts.visited == one.id and self.person is not None:
                self.person.session.name = one.name
                self.person.changed()
            elif state != before and (before or one.waits):
                self._page.say([f"{self._label(one)}: {state}"])

    def changed(self) -> None:
        """Tell what is new in the session that is visited."""
        if self.person is not None:
            self.person.changed()

    def tick(self) -> None:
        """Let the session that is visited say that nothing is heard of it."""
        if self.person is not None:
            self.person.tick()

    def enter(self, session: Session, acts: Acts) -> None:
        """Tell the session that is visited now."""
        self._put_away()
        session.review.kept = self._kept.pop(session.id, session.review.kept)
        listed = self._sessions.find(session.id)
        if listed is not None:
            session.name = listed.name
        self._sure, self._meant = None, None
        more = {name: (MANY[name], do) for name, do in self._commands().items()}
        answers = self._answers
        self.person = Person(session, self._page, self._now, answers=answers, owns=False, more=more)
        self.person.acts, self.person.keyboard, self.person.leave = acts, self.keyboard, self.leave
        self.person.begin()
        self.listed()

    def left(self) -> None:
        """Be at the list again."""
        if self.person is not None:
            self._put_away()
            self._page.say([self._selected()])
        self.listed()

    def begun(self, session: str) -> None:
        """Say that a session has begun; it is visited next."""
        self._page.say(["prsm: it begins, in a process of its own"])

    def not_begun(self, task: str) -> None:
        """Keep a task that has not begun, to be printed at the end."""
        self._unsent.append(task)

    def listed(self) -> None:
        """Have the list read again."""
        self.rounds.soon()

    def drafts(self) -> Sequence[str]:
        """Return what was typed and reached nobody."""
        self._put_away()
        return self._not_sent(one for kept in self._kept.values() for one in kept.values())

    # What became of acts: of those of the session, where one is visited.

    def unsent(self, agent: str | None, text: str) -> None:
        """Say that a text reached nobody; it is printed again at the end."""
        self._unsent.append(text)
        self._page.say([f"prsm: not sent: {first_line(text)}"])

    def unanswered(self, request: str) -> None:
        """Say that an answer did not get through."""
        if self.person is not None:
            self.person.unanswered(request)

    def paged(self, agent: str) -> None:
        """Tell a page of history."""
        if self.person is not None:
            self.person.paged(agent)

    # What is typed.

    def begin_line(self) -> None:
        """Note what the line is for."""
        self._meant = self.person or self._sure or self
        if self.person is not None:
            self.person.begin_line()

    def entered(self, line: str) -> None:
        """Do what a line says, where the person still is where it was begun."""
        meant, self._meant = self._meant, None
        is_elsewhere = meant is not None and meant is not (self.person or self._sure or self)
        if self.acts.is_turning:
            self._page.end_line()
            self.told("warning", f"not used: {line.strip()!r}: another place is on its way")
        elif is_elsewhere:
            self._page.end_line()
            self.told("warning", f"not used: {line.strip()!r}: what it was for has ended")
        elif self.person is not None:
            self.person.entered(line)
        else:
            self._page.end_line()
            self._at_list(line.strip())

    def _what_follows(self) -> str:
        runs = [one.name for one in self._sessions.listed if one.status == "running"]
        return f"what runs goes on: {first_line(', '.join(runs), 200)}" if runs else "nothing runs"

    def _at_list(self, typed: str) -> None:
        if not typed:
            return
        if self._sure is not None:
            self._confirm(typed)
            return
        command = read_command(typed)
        if command is None:
            self.acts.new(self._workspace, typed)
            return
        doing: Mapping[str, Callable[[str], None]] = {
            **self._commands(),
            "help": lambda _: self._page.say(help_lines({**_OWN, **MANY})),
            "quit": lambda _: self.leaving(at_once=False),
        }
        if command.name in doing:
            doing[command.name](command.rest)
        else:
            self.told("warning", unknown(command.name, {**_OWN, **MANY}))

    def _commands(self) -> Mapping[str, Callable[[str], None]]:
        return {
            "sessions": lambda _: self._go_to_list(),
            "visit": self._visit,
            "new": self._new,
            "resume": self._resume,
            "end": self._end,
            "rename": self._rename,
            "export": self._export,
            "delete": self._delete,
        }

    def _go_to_list(self) -> None:
        is_left = self.person is not None  # which says itself what is selected then
        if is_left:
            self.acts.leave()
        self.acts.then(lambda: self._read_list(selects=not is_left))

    def _read_list(self, *, selects: bool) -> None:
        self._is_asked = selects
        self.listed()

    def _list(self, *, selects: bool = True) -> None:
        lines = self._sessions.lines()
        rows = [
            f"{self._label(row)}: {self._about(row)}" for row in lines if not isinstance(row, str)
        ]
        count = f"sessions: {len(rows)}" if rows else "sessions: none yet"
        self._page.say([count, *rows])
        if selects:
            self._page.say([self._selected()])

    def _visit(self, number: str) -> None:
        one, _ = self._meant_by(number, needs_number=True)
        if one is not None:
            self.acts.open(one.id)

    def _new(self, folder: str) -> None:
        self._workspace = folder or self._workspace
        if self.person is not None:
            self.acts.leave()
        else:
            self._page.say([self._selected()])

    def _resume(self, number: str) -> None:
        one, _ = self._meant_by(number)
        if one is None:
            return
        if one.status != "interrupted":
            self.told("warning", f"{one.name} is {one.word}: only what was cut off goes on")
            return
        self.acts.resume(one.id)

    def _end(self, number: str) -> None:
        one, _ = self._meant_by(number, needs_number=True)
        if one is None:
            return
        if one.status != "running":
            self.told("warning", f"no run of {one.name} is open")
            return
        stop = partial(self.acts.stop, one.id)
        self.ask(f"end the run of {one.name}, with its agents killed", stop)

    def _rename(self, rest: str) -> None:
        one, name = self._meant_by(rest)
        if one is not None:
            self.acts.rename(one.id, name)

    def _export(self, rest: str) -> None:
        one, path = self._meant_by(rest)
        if one is None:
            return
        if not path:
            self.told("warning", "to which file? Its ending says how: .json, .jsonl or .html")
            return
        self.acts.export(one.id, os.path.join(self._workspace, path))  # noqa: PTH118 - as typed

    def _delete(self, number: str) -> None:
        one, _ = self._meant_by(number, needs_number=True)
        if one is None:
            return
        if one.status == "running" and one.is_owned:
            self.told("warning", f"{one.name} still runs: /end it first")
            return
        question = f"delete {one.name} for good; files that its agents wrote stay"
        self.ask(question, partial(self.acts.delete, one.id))

    def _meant_by(self, rest: str, *, needs_number: bool = False) -> tuple[Listed | None, str]:
        """Return the session that is meant, and what else was typed; says why there is none.

        In a session that is this one, unless a command `needs_number`.
        """
        if self.person is not None and not needs_number:
            return self._sessions.find(self.person.session.id), rest
        number, _, more = rest.partition(" ")
        found = numbered(number, self._numbers)
        one = self._sessions.find(found[0]) if found else None
        if one is None:
            self.told("warning", "which session? /sessions tells their numbers")
        return one, more.strip()

    def ask(self, what: str, do: Callable[[], None]) -> None:
        """Do something once the person has said yes, in the session or at the list."""
        if self.person is not None:
            self.person.ask(what, do)
        else:
            super().ask(what, do)

    def _selected(self) -> str:
        return f"selected: the list; a task that you type begins a session in {self._workspace}"

    def _about(self, one: Listed) -> str:
        fork = "a fork, " if one.origin else ""
        age = words.age(self._now() - one.started_at)
        begun = "just now" if age == "now" else f"{age} ago"
        return f"{fork}{_state(one)}, begun {begun}, in {one.workspace}"

    def _label(self, one: Listed) -> str:
        return f"session {number_of(one.id, self._numbers)}, {one.name}"

    def _put_away(self) -> None:
        """Keep what was said in the session that is left, and not sent."""
        person, self.person = self.person, None
        if person is not None:
            self._kept[person.session.id] = person.session.review.kept


def _state(one: Listed) -> str:
    if one.group == NEEDS_YOU:
        return f"{NEEDS_YOU}: {'; '.join(one.waits)}"
    return one.word
