"""What a person typed, as acts, and what became of these, as lines.

What is typed goes to the agent that is selected, or answers the request that the person has gone
to. A line counts for what was there when its first key was pressed; for anything else it is
dropped, and that is said. Every change of what is selected is said.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from prsm_core.kit import escape_exact
from prsm_tui.acts import DELIVERIES
from prsm_tui.commands import Typed, read_command, unknown
from prsm_tui.editor import Ends
from prsm_tui.linear.commands import LINEAR, MANY, PAGES, help_lines, is_yes
from prsm_tui.linear.files import Reviewing, Shelving
from prsm_tui.linear.phrases import lines_of, verdict_of, whole
from prsm_tui.linear.telling import Teller
from prsm_tui.model.requests import PERMISSION, Request, parse_answer
from prsm_tui.model.session import Session, Silence
from prsm_tui.model.words import state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from prsm_tui.acts import Acts
    from prsm_tui.commands import Command
    from prsm_tui.linear.keyboard import Keyboard
    from prsm_tui.linear.page import Page
    from prsm_tui.model.agents import Agent
    from prsm_tui.model.review import Comment

LEAVE_SECONDS = 5.0  # within which the second Ctrl+C leaves
_TOO_LONG = 7  # digits of a number that names one of what was shown
_NOBODY = "nobody is asked here: what the command line says answers (--on-ask)"


class AtPage:
    """Owns what a person at a page is asked, has typed and not sent, and how they leave.

    Acts that only a screen has use for come to nothing: completion, an editor, going to a call.
    """

    def __init__(self, page: Page, now: Callable[[], float]) -> None:
        # Given before anything is typed.
        self.keyboard: Keyboard
        self.leave: Callable[[], None] = lambda: None
        self._page, self._now = page, now
        self._sure: Callable[[], None] | None = None  # what is done on a yes
        self._meant: object = None  # where the person was when the line was begun
        self._left_at: float | None = None
        self._unsent: list[str] = []

    def told(self, level: str, text: str) -> None:
        """Say what became of an act."""
        self._page.tell(level, text)

    def added(self, draft: str, key: str) -> None:
        """Show a key."""
        self._page.typed(draft, key)

    def erased(self, draft: str, erased: str) -> None:
        """Take signs off."""
        self._page.erased(draft, erased)

    def leaving(self, *, at_once: bool) -> None:
        """Leave at the second time; the first says what becomes of what runs."""
        now = self._now()
        is_second = self._left_at is not None and now - self._left_at <= LEAVE_SECONDS
        self._page.end_line()
        if at_once or is_second:
            self.leave()
            return
        self._left_at = now
        self.told("warning", f"Ctrl+C again leaves: {self._what_follows()}")

    def ask(self, what: str, do: Callable[[], None]) -> None:
        """Do something once the person has said yes; what they type next is the answer."""
        self._sure = do
        # Before the choices are shown: afterwards what is typed may be an answer.
        self.keyboard.forget()
        self._page.say([f"sure: {what}?", "sure: choice 1: yes", "sure: choice 2: no"])

    def _confirm(self, typed: str) -> bool:
        """Do what was asked about if the answer is yes; return whether it is."""
        do, self._sure = self._sure, None
        if do is not None and is_yes(typed):
            do()
            return True
        self.told("info", "not done")
        return False

    def _not_sent(self, comments: Iterable[Comment]) -> Sequence[str]:
        texts = [comment.text for comment in comments]
        return [*self._unsent, *texts, *filter(str.strip, [self.keyboard.draft])]

    def _what_follows(self) -> str:
        raise NotImplementedError

    def completed(self, text: str, found: Sequence[str]) -> None:
        """Nothing is completed here."""

    def edited(self, agent: str | None, text: str) -> None:
        """Nothing is edited here."""

    def lent(self) -> AbstractContextManager[Ends]:
        """Nothing is edited here."""
        return nullcontext(Ends())

    def found(self, agent: str, call: str | None) -> None:
        """No call is looked for here."""


class Person(AtPage):
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
        """Begin with nothing selected; `now` tells Unix seconds.

        The person may answer requests if `answers`; the session's runs end with this process if it
        `owns` them; `more` are further commands, where there are many sessions.
        """
        super().__init__(page, now)
        self._more = more or {}
        self._known = {**LINEAR, **{name: one for name, (one, _) in self._more.items()}}
        self.session, self.owns = session, owns
        self.acts: Acts  # given before anything is typed
        self._answers = answers
        self._teller = Teller(session)
        self._chosen: str | None = None
        self._is_chosen = False  # by the person, rather than by who leads
        self._was_live = False
        self._at: Request | None = None  # where a line is an answer
        self.delivery = DELIVERIES[0]
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
        return self._not_sent(self.session.review.kept.values())

    # What became of acts.

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

    def begin_line(self) -> None:
        """Note what the line is for."""
        self._meant = self._at or self._sure

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
            if not self._confirm(typed):
                self._page.say([self._selected()])
            return
        command = read_command(typed)
        if command is not None:
            self._command(command)
        elif self._at is not None:
            self._answer(self._at, typed)
        else:
            self.acts.say(self._chosen, line, self.delivery)

    def _what_follows(self) -> str:
        return self.session.what_follows(owns=self.owns)

    def _command(self, command: Typed) -> None:
        acts = self.acts
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
            "restart": self._restart,
            "stop": lambda _: self.ask(
                "end the run as interrupted, with its agents killed", acts.stop
            ),
            "model": self._model,
            "mode": acts.mode,
            "attach": acts.attach,
            "fork": lambda _: acts.fork(),
            "quit": lambda _: self.leaving(at_once=False),
            **{name: partial(self._look, name) for name in PAGES},
            **{name: do for part in self._files for name, do in part.commands.items()},
            **{name: do for name, (_, do) in self._more.items()},
        }
        if command.name in doing:
            doing[command.name](command.rest)
        elif command.name in MANY:
            self.told("warning", f"/{command.name} is of `prsm` alone, which has all sessions")
        else:
            self.told("warning", unknown(command.name, self._known))

    def _model(self, name: str) -> None:
        if name:
            self.acts.looks.choose_model(name, self._chosen)
        else:
            self._look("models")

    def _look(self, page: str, _: str = "") -> None:
        """Ask for a page, which is told once it is there."""
        self._pages_asked.append(page)
        self.acts.looks.load(page)

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
        self.keyboard.forget()
        self._page.say([f"selected: {lead} of {len(waiting)} that wait"])
        self._page.say(f"{lead}: {line}" for line in lines)

    def _back(self) -> None:
        self._at = None
        self._page.say([self._selected()])

    def _answer(self, request: Request, typed: str) -> None:
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
        if self._chosen is None:
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
        if agent is None:
            self.told("warning", f"there is no agent {name}" if name else "no agent is selected")
            return
        if not agent.is_live:
            self.told("warning", f"{self._teller.label(agent.id)} has ended already")
            return
        below = sum(one.is_live for one in self.session.below(agent.id))
        others = f" and the {below} below it" if below else ""
        kill = partial(self.acts.kill, agent.id)
        self.ask(f"kill {self._teller.label(agent.id)}{others}", kill)

    def _restart(self, prompt: str) -> None:
        agent = self.session.agents.get(self._chosen or "")
        if agent is None or agent.is_live or not prompt:
            self.told("warning", "select an agent that has ended, then: /restart TEXT")
            return
        self.acts.restart(agent.id, prompt)

    def ask(self, what: str, do: Callable[[], None]) -> None:
        """Do something once the person has said yes; what they type next is the answer."""
        self._at = None
        super().ask(what, do)

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
