"""The `console` frontend: progress on stderr, the summary on stdout, answers from stdin.

What agents write is escaped, so that it cannot move the cursor, hide text or look like PRSM.
"""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from prsm_console.asking import ENDS, REQUESTS
from prsm_console.liveness import Liveness
from prsm_console.person import Person
from prsm_console.screen import Screen
from prsm_console.worktree import describe_changes, look_at
from prsm_core import Spent
from prsm_core.files import OPEN_STATES, UNMERGED, UNSURE
from prsm_core.kit import (
    escape_exact,
    escape_prose,
    first_line,
    first_of,
    format_duration,
    state_folder,
)
from prsm_core.terminal import (
    AttachableFrontend,
    SystemClock,
    build_tree,
    code_of,
    columns_of,
    drained,
    follow_run,
    format_table,
    hanging,
    problem_lines,
    problems_of,
    room_in,
    rows_of,
    start_task,
    stdin_descriptor,
    subject,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from prsm_console.worktree import WorkTree
    from prsm_core import AppHandle, Clock, Event, RunHandle, RunResult, Store
    from prsm_core.door import AgentNode, AgentTree
    from prsm_core.terminal import Problem, SeenWarnings, SessionOwner

    Look = Callable[..., Awaitable[WorkTree | None]]

_TOLD = frozenset({"unmerged", "unanswered", "refused"})  # … by lines of their own
LOOK_SECONDS = 1.0  # for which a run waits for what git says of the files before it
_STOPPING = "stopping the agents; a second Ctrl-C ends at once"


class ConsoleFrontend(AttachableFrontend):
    """Shows one run and asks the person at the terminal.

    Settings: `interactive` (default true); false leaves every request to the engine. `replays`
    (default false) says that nothing runs, so that silence is none of an agent.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        out: TextIO | None = None,
        err: TextIO | None = None,
        stdin: int | None = None,
        clock: Clock | None = None,
        look: Look | None = None,
    ) -> None:
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._stdin = stdin_descriptor() if stdin is None else stdin
        self._interactive = bool(settings.get("interactive", True))
        self._replays = bool(settings.get("replays", False))
        self._clock = clock or SystemClock()
        self._look = look or partial(look_at, clock=self._clock)
        self._finished: Mapping[str, Any] = {}
        self._run: RunHandle | None = None
        self._unanswered = Unanswered()
        self._changed = Changed()
        self._before: WorkTree | None = None
        self._folder = "."
        self._seen: SeenWarnings | None = None

    def write_to(self, out: TextIO) -> None:
        """Let results go to this stream, which leads to the command's stdout."""
        self._out = out

    async def run(self, app: AppHandle) -> int:
        """Start the task, show it, and return the run's exit code."""
        self._folder = app.options.workspace
        started = self._clock.now()
        person = Person(
            app.requests, app.agents, err=self._err, stdin=self._stdin, is_asked=self._interactive
        )
        liveness = Liveness(person.screen, self._clock, person.refresh, is_live=not self._replays)
        try:
            async with asyncio.TaskGroup() as group:
                helpers = [group.create_task(person.serve()), group.create_task(liveness.watch())]
                looking = group.create_task(self._look_before(), name="look at the files")
                await first_of(self._clock, LOOK_SECONDS, lambda: asyncio.wait({looking}))
                liveness.waits_for("the providers to be looked at")
                self._run = run = await start_task(app)
                show = partial(self._show, person, liveness)
                result = await follow_run(app, run, show, self._err)
                liveness.waits_for("the files to be looked at")
                cut = result.status == "interrupted"
                tree = await app.agents.tree()
                ends = await self._ends(tree, run, result.problems, was_interrupted=cut)
                for helper in (*helpers, looking):
                    helper.cancel()
        except ExceptionGroup as group:
            if len(group.exceptions) > 1:
                raise
            raise group.exceptions[0] from None
        except asyncio.CancelledError:
            if self._run is not None:
                person.screen.print_lines([_STOPPING])
            raise
        finally:
            person.close()
            if self._seen is not None:
                self._seen.save()
        took = self._finished.get("duration_s")
        took = self._clock.now() - started if took is None else took
        self._conclude(person.screen, result, took, ends)
        await drained(self._err, self._out)
        return result.exit_code

    async def print_rest(self, store: Store) -> None:
        """Tell what is kept of a run that was interrupted after `run` was cancelled."""
        screen = Screen(self._err)
        if self._run is None:
            screen.print_lines(["nothing was begun, so there is nothing to keep"])
            return
        session, run = self._run.session, self._run.run_id
        rows, now = await store.agents(session), self._clock.time()
        tree = build_tree(session, run, rows, now, interrupted=True)
        kept = "interrupted; kept are the ledger of the session and the files as they are:"
        ends = await self._ends(tree, self._run, was_interrupted=True)
        nodes = [node for node in tree.walk() if node.run == run]
        used = sum((node.usage_self.as_spent for node in nodes), Spent())
        screen.print_lines([kept, *ends, *([f"until then: {used.text}"] if nodes else [])])

    async def attach(self, owner: SessionOwner) -> int:
        """Show a session that another process runs, and let the person answer its requests."""
        return await Attached(owner).run()

    async def _look_before(self) -> None:
        self._before = await self._look(self._folder)

    async def _ends(
        self,
        tree: AgentTree,
        run: RunHandle,
        problems: Sequence[Problem] = (),
        *,
        was_interrupted: bool = False,
    ) -> Sequence[str]:
        """Return the agents, what nobody answered, what changed, how to look further, problems."""
        changes: Sequence[str] = ()
        # What git counts is of everybody, and against the last commit: a second answer at most.
        if (before := self._before) is not None and not self._changed.is_told:
            changes = describe_changes(before, await self._look(self._folder, commit=before.commit))
        columns = columns_of(self._err)
        width = None if columns is None else columns - 1  # as a LiveScreen has it
        return [
            *agent_table(tree, run.run_id, width=width),
            *self._unanswered.lines(names_of(tree)),
            *changes,
            *self._changed.lines(run.session, self._folder),
            *hints(run.session, self._folder, was_interrupted=was_interrupted),
            *problem_lines([one for one in problems if one.kind not in _TOLD], names_of(tree)),
        ]

    def _show(self, person: Person, liveness: Liveness, event: Event) -> None:
        if self._run is None or event.run != self._run.run_id:
            person.renderer.learn(event)
            return
        liveness.note(event)
        self._unanswered.note(event)
        self._changed.note(event)
        if event.type == "run_finished":
            self._finished = event.data
        # Live notices say how much was left out because this terminal took nothing.
        elif (event.seq is not None or event.type == "notice") and self._is_new(event):
            liveness.printed(person.show(event))

    def _is_new(self, event: Event) -> bool:
        """Return whether this person is to be shown an event, which may say so `once`."""
        if self._replays or not event.data.get("once"):
            return True
        if self._seen is None:
            from prsm_core.terminal import SeenWarnings  # most runs have nothing of the kind

            self._seen = SeenWarnings(state_folder())
        return self._seen.is_new(str(event.data.get("text")))

    def _conclude(
        self, screen: Screen, result: RunResult, duration_s: float, ends: Sequence[str]
    ) -> None:
        parts = [
            result.status
            + (f" ({result.evidence})" if result.evidence not in {None, "claimed"} else "")
            + f" in {format_duration(duration_s)}",
            result.spent.text,
        ]
        errors = hanging("error: ", escape_prose(result.error)) if result.error else ()
        screen.print_lines([*ends, *errors, ", ".join(parts)])
        if result.summary:
            rows = escape_prose(result.summary).rstrip("\n").split("\n")
            if (width := columns_of(self._out)) is not None:
                rows = [row for line in rows for row in rows_of(line, width)]
            self._out.write("\n".join(rows) + "\n")
            self._out.flush()


KILLED = ": its process did, before the run was finished"
COMPLETED, FAILED = 0, 1  # exit codes
_TURNS_OF_RUN = frozenset({"run_started", "run_resumed", "run_finished"})
_LEFT = "left; the run goes on"
_LEAVE = "its agents' requests are put to you; Ctrl-C leaves, and the run goes on"
_ONLY_SHOWN = "stdin is no terminal: what its agents ask is only shown, `prsm answer` answers it"


class Attached:
    """Shows one session on this terminal."""

    def __init__(self, owner: SessionOwner) -> None:
        self._owner = owner
        self._asks = sys.stdin is not None and sys.stdin.isatty()
        self._err = sys.stderr
        self._person = Person(
            owner,
            owner,
            err=self._err,
            stdin=stdin_descriptor() if self._asks else None,
            is_asked=self._asks,
            leaves=True,
        )
        self._liveness = Liveness(self._person.screen, SystemClock(), self._person.refresh)
        self._seen = 0  # the number of the last event
        self._run_is_open = False
        self._code = COMPLETED  # of the run that ended last
        self._names: dict[str, str] = {}

    async def run(self) -> int:
        """Show the session until its owner ends or the person leaves; return the exit code."""
        self._say(f"attached to session {self._owner.session}: {first_line(self._owner.task)}")
        self._say(_LEAVE if self._asks else _ONLY_SHOWN)
        spent = await self._owner.spent()
        if spent != Spent():
            self._say(f"so far, turns that run included: {spent.text}")
        try:
            with _signalled() as leaving:
                await self._catch_up()
                is_over = await self._until_end(leaving)
            if is_over:
                await self._read()
        finally:
            self._person.close()
        if not is_over:
            self._say(_LEFT)
            return COMPLETED
        self._say(f"the session has ended{KILLED if self._run_is_open else ''}")
        return FAILED if self._run_is_open else self._code

    async def _catch_up(self) -> None:
        """Learn what has happened; show what is still open, and how a run that is over ended."""
        asked: dict[str, Event] = {}
        end: Event | None = None
        async for event in self._owner.events():
            self._note(event)
            self._person.learn(event)
            if event.type in REQUESTS:
                asked[event.data["request"]] = event
            elif event.type in _TURNS_OF_RUN:
                end = event if event.type == "run_finished" else None
        if end is not None:
            self._show(end)
        is_open = await self._owner.open_requests()
        for request, event in asked.items():
            if request in is_open:
                self._show(event)

    async def _until_end(self, leaving: asyncio.Event) -> bool:
        """Show and ask; return whether the session has ended, rather than the person left."""
        async with asyncio.TaskGroup() as group:
            gone = group.create_task(self._owner.until_gone(attending=self._asks), name="owner")
            ends = {gone, group.create_task(leaving.wait(), name="leave")}
            helpers = [group.create_task(self._read(follow=True), name="read")]
            helpers.append(group.create_task(self._person.serve(), name="serve the person"))
            helpers.append(group.create_task(self._liveness.watch(), name="status"))
            if (keyboard := self._person.keyboard) is not None:
                ends.add(group.create_task(keyboard.ended.wait(), name="end of input"))
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in (*ends, *helpers):
                task.cancel()
        return gone.done() and not gone.cancelled()

    async def _read(self, *, follow: bool = False) -> None:
        async for event in self._owner.events(self._seen, follow=follow):
            self._note(event)
            self._show(event)
            await room_in(self._err)

    def _note(self, event: Event) -> None:
        self._seen = event.seq or self._seen
        if event.type == "agent_spawned" and event.agent is not None:
            self._names[event.agent] = escape_exact(str(event.data.get("name")))
        if event.type in _TURNS_OF_RUN:
            self._run_is_open = event.type != "run_finished"
        if event.type == "run_finished":
            self._code = code_of(event.data)

    def _show(self, event: Event) -> None:
        self._liveness.note(event)
        if event.type == "run_finished":
            self._person.screen.print_lines(conclusion(event, self._names))
        else:
            self._liveness.printed(self._person.show(event))

    def _say(self, text: str) -> None:
        self._person.screen.print_lines([f"prsm: {text}"])


@contextmanager
def _signalled() -> Iterator[asyncio.Event]:
    """Yield an event that SIGINT and SIGTERM set."""
    loop, leaving = asyncio.get_running_loop(), asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, leaving.set)
    try:
        yield leaving
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


_HEADERS = ("AGENT", "PROVIDER/MODEL", "STATE", "EVIDENCE", "TIME", "TOKENS", "COST")
_SHOWN = 30  # agents; a larger tree has a command of its own
_UNANSWERED = frozenset({"timeout", "unattended", "headless", "turn_ended", "agent_ended"})


def agent_table(tree: AgentTree, run: str | None, *, width: int | None) -> Sequence[str]:
    """Return the agents of a run, none of earlier runs, as a table of what each used itself."""
    nodes = [node for node in tree.walk() if node.run == run]
    if not nodes:
        return ()
    rows = [_row(node) for node in nodes[:_SHOWN]]
    table = format_table(_HEADERS, rows, width=width, spare=("TIME",)).splitlines()
    hidden = len(nodes) - len(rows)
    return [*table, f"… {hidden} more agents: prsm tree"] if hidden else table


def _row(node: AgentNode) -> tuple[str | None, ...]:
    spent = node.usage_self.as_spent
    is_held = node.waiting_on and not node.state.startswith("waiting")
    return (
        "  " * node.depth + node.name,
        f"{node.provider}/{node.model}",
        "held" if is_held else node.state,
        node.evidence,
        None if node.elapsed_s is None else format_duration(node.elapsed_s),
        spent.tokens_text,
        spent.cost_text,
    )


def hints(session: str, folder: str, *, was_interrupted: bool) -> Sequence[str]:
    """Return how to look further, from where the person is now."""
    where = _where(folder)
    lines = [
        f"look further: prsm tree{where} {session}",
        f"  prsm history{where} AGENT, prsm events{where}",
    ]
    if was_interrupted:
        lines.append(f"go on where it was interrupted: prsm resume{where} {session}")
    return [*map(escape_exact, lines)]


def _where(folder: str) -> str:
    """Return the option that names a folder, blank for the current one."""
    # A ledger names it: it may be gone, or have a name that no folder here can have.
    with suppress(OSError, ValueError):
        if Path(folder).samefile("."):
            return ""
    return f" -C {shlex.quote(folder)}"


class Unanswered:
    """Remembers what was asked of a person, and what of that nobody answered."""

    def __init__(self) -> None:
        self._open: dict[str, Event] = {}
        self._left: list[Event] = []

    def note(self, event: Event) -> None:
        """Take in an event."""
        if event.type in REQUESTS:
            self._open[event.data["request"]] = event
        elif event.type in ENDS:
            asked = self._open.pop(event.data["request"], None)
            if asked is not None and event.data.get("by") in _UNANSWERED:
                self._left.append(asked)

    def lines(self, names: Mapping[str, str]) -> Sequence[str]:
        """Return what waited for the person and was not answered."""
        head, events = "waited for YOU, unanswered: ", (*self._left, *self._open.values())
        return [f"{head}{names.get(e.agent or '', '?')}: {subject(e.data)}" for e in events]


_APART = "not merged"  # a worktree
_HOW = {"partial": "merged in part"}


class Changed:
    """Counts what a run has changed in files, as far as nobody has decided about it."""

    def __init__(self) -> None:
        self.is_told = False  # each change was, with its agent
        self._pending: dict[str, Mapping[str, Any]] = {}
        self._unmerged: set[str] = set()  # of those, the ones that could not be taken back
        self._apart: dict[str | None, Mapping[str, Any]] = {}  # worktrees not merged, by agent

    def note(self, event: Event) -> None:
        """Take in an event."""
        if event.type == "worktree_merged":
            self._apart.pop(event.agent, None)
            if event.data["result"] not in {"merged", "nothing"}:
                self._apart[event.agent] = event.data
        elif event.type == "file_changed" and "change" in event.data:
            self.is_told = True
            self._pending[event.data["change"]] = event.data
        elif event.type == "changes_decided":
            for one in event.data["changes"]:
                self._unmerged.discard(one["change"])
                if one["state"] not in OPEN_STATES:
                    self._pending.pop(one["change"], None)
                elif one["state"] == UNMERGED:
                    self._unmerged.add(one["change"])

    def lines(self, session: str, folder: str) -> Sequence[str]:
        """Return what is pending, the command that takes it back, and what is not merged."""
        trees = [
            escape_exact(f"{_HOW.get(one['result'], _APART)}: {one['branch'] or one['worktree']}")
            for one in self._apart.values()
        ]
        found = [one for one in self._pending.values() if one["how"] != "outside"]
        outside = {one["path"] for one in self._pending.values() if one["how"] == "outside"}
        if not found and not outside:
            return trees
        lines = []
        where = f"{_where(folder)} --session {session}"
        if found:
            lines.append(f"changes that are pending: {', '.join(self._counts(found))}")
        if outside:
            lines.append(f"files changed from outside, decided one by one: {len(outside)}")
        lines.append(escape_exact(f"  look: prsm changes list{where}"))
        reject = f"prsm changes reject{where} --all"
        if any(one["how"] not in UNSURE for one in found):
            lines.append(escape_exact(f"  take them back: {reject}"))
        if any(one["how"] in UNSURE for one in found):
            lines.append(escape_exact(f"  with those that may be yours: {reject} --possible"))
        return (*lines, *trees)

    def _counts(self, found: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Return how much agents have changed, and what of it needs a second look."""
        added, removed = (sum(one[name] or 0 for one in found) for name in ("added", "removed"))
        parts = [f"files: {len({one['path'] for one in found})}", f"+{added} -{removed}"]
        for what, some in (
            ("conflicts", [one for one in found if one["beside"]]),
            ("maybe yours (?)", [one for one in found if one["how"] in UNSURE]),
            ("not taken back", [one for one in found if one["change"] in self._unmerged]),
        ):
            parts += [f"{what}: {len({one['path'] for one in some})}"] if some else []
        return parts


def names_of(tree: AgentTree) -> dict[str, str]:
    """Return the names of a tree's agents by id."""
    return {node.id: escape_exact(node.name) for node in tree.walk()}


def conclusion(event: Event, names: Mapping[str, str]) -> Sequence[str]:
    """Return what a run came to, by the event of its end; `names` has agents by id, escaped."""
    error, summary = event.data.get("error"), event.data.get("summary")
    told = [*hanging("error: ", escape_prose(error))] if error else []
    told += [f"  {line}" for line in escape_prose(summary).splitlines()] if summary else []
    used = Spent.from_dict({**(event.data.get("usage") or {}), **event.data}).text
    told += problem_lines(problems_of(event.data), names)
    return [f"the run has ended: {escape_exact(str(event.data.get('status')))}, {used}", *told]
