"""The `console` frontend: progress on stderr, the summary on stdout, answers from stdin.

What agents write is escaped, so that it cannot move the cursor, hide text or look like PRSM.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from prsm_console.closing import Changed, Unanswered, agent_table, hints, names_of
from prsm_console.liveness import Liveness
from prsm_console.person import Person
from prsm_console.screen import LineScreen
from prsm_core import Spent
from prsm_core.kit import escape_prose, first_of, format_duration, state_folder
from prsm_core.terminal import (
    AttachableFrontend,
    SystemClock,
    build_tree,
    columns_of,
    describe_changes,
    drained,
    follow_run,
    hanging,
    look_at,
    problem_lines,
    rows_of,
    start_task,
    stdin_descriptor,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from prsm_console.screen import Screen
    from prsm_core import AppHandle, Clock, Event, RunHandle, RunResult, Store
    from prsm_core.door import AgentTree
    from prsm_core.terminal import Problem, SeenWarnings, SessionOwner, WorkTree

_TOLD = frozenset({"unmerged", "unanswered", "refused"})  # … by lines of their own
LOOK_SECONDS = 1.0  # for which a run waits for what git says of the files before it
_STOPPING = "stopping the agents; a second Ctrl-C ends at once"


class Look(Protocol):
    """How the files are looked at: look_at."""

    def __call__(self, folder: str, *, commit: str = "") -> Awaitable[WorkTree | None]:
        """Return what in a folder differs from a commit, by default HEAD."""
        ...


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
        person = Person(app, err=self._err, stdin=self._stdin, is_asked=self._interactive)
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
                tree = await app.tree()
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
        screen = LineScreen(self._err, is_echoed=True)
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
        from prsm_console.attached import Attached  # few look at what runs elsewhere

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
        """Return the agents, what nobody answered, what changed, and how to look further.

        What speaks against the result is last, but for what those lines tell anyway.
        """
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
            lines = escape_prose(result.summary).rstrip("\n").split("\n")
            width = columns_of(self._out)
            rows = lines if width is None else [r for line in lines for r in rows_of(line, width)]
            self._out.write("\n".join(rows) + "\n")
            self._out.flush()
