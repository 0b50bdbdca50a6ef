"""ScriptedApp: the application a frontend drives, whose run is what a test says.

In a test of a frontend::

    app = ScriptedApp()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(MyFrontend({}).run(app))
        await app.started()
        app.say("notice", level="info", text="hello")
        app.finish()
    assert running.result() == 0
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import convert, structs, to_builtins
from msgspec.structs import replace
from prsm_files.commits import Commit, Outcome
from prsm_files.session.commenting import Remark, Team, check_comments, chosen_lines, send
from prsm_files.session.committing import Wording, committed, told_outcome
from prsm_files.session.deciding import (
    Choice,
    accepted,
    choose,
    of_last_turn,
    told_change,
    told_decision,
    told_detail,
)
from prsm_files.session.deciding import find_change as find_row
from prsm_files.session.reasons import find_reason, of_path, told_reason
from prsm_files.session.taking_back import check_way, not_kept, nothing_kept, run_open
from prsm_files.shadow.acts import nothing_to_undo

from prsm_core import door
from prsm_core.domain.agents import AgentState
from prsm_core.domain.changes import (
    ACCEPTED,
    OPEN_STATES,
    REJECTED,
    Author,
    ChangeRow,
    Decision,
    FileChange,
)
from prsm_core.domain.events import Event
from prsm_core.domain.sessions import SessionSnapshot
from prsm_core.domain.usage import Spent, TokenUsage
from prsm_core.engine.door.completion import complete_word
from prsm_core.engine.door.history import read_history
from prsm_core.engine.door.view import tell_budget
from prsm_core.engine.journal.feed import no_such_event
from prsm_core.engine.journal.views import conversation
from prsm_core.engine.requests import check_choices
from prsm_core.engine.spending import BudgetScope
from prsm_core.engine.workspace_files import tell_snapshot
from prsm_core.errors import ConfigError, MessageRoutingError, ModelNotAvailableError, StoreError
from prsm_core.interfaces.app_handle import Agents, Changes, Requests, Runs, Sessions, Snapshots
from prsm_core.interfaces.frontend import RunOptions, RunResult
from prsm_core.interfaces.store import SessionLog
from prsm_core.kit.arguments import check_limit, known_mode, takes_checked
from prsm_core.workspace.images import check_images
from prsm_testing.samples import RUN, SESSION

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence

    from prsm_core.domain.agents import PermissionMode
    from prsm_core.domain.permissions import Answer
    from prsm_core.door import Comment

COMMIT = "c0" * 20  # the id of each
SAFETY = "5afe5afe5a"  # the snapshot before each restore

COMPLETED = RunResult(
    status="completed",
    summary="All done.",
    exit_code=0,
    usage=TokenUsage(input_tokens=1200, output_tokens=None),
    spent=Spent.of_turn(TokenUsage(input_tokens=1200, output_tokens=None), None),
)

_REQUESTS = {"permission_requested": "permission", "question_asked": "question"}
_UNTOLD = {"tool": "", "question": ""}  # what a test need not say of a request
_DELIVERIES = {"inject": "injected", "queue": "queued", "interrupt": "interrupting"}
_ENDS = frozenset({"permission_resolved", "question_answered"})
_OF_RUNS = frozenset({"run_started", "run_resumed", "run_finished"})
_LIVE = {"text_delta": "text", "thinking_delta": "thinking"}
# What is not known of any agent.
_UNKNOWN: Mapping[str, Any] = {"waiting_on": None, "context": None, "open_tools": [], "prompts": []}


class ScriptedRun:
    """RunHandle whose result a test gives."""

    def __init__(self, session: str = SESSION) -> None:
        self.run_id = RUN
        self.session = session
        self.since = 0
        self.ended: asyncio.Future[RunResult] = asyncio.get_running_loop().create_future()

    async def result(self) -> RunResult:
        """Wait until the test has ended the run."""
        return await asyncio.shield(self.ended)


class _Group:
    def __init__(self, app: ScriptedApp) -> None:
        self._app = app


@takes_checked
class ScriptedRuns(_Group, Runs):
    """The one run that a frontend starts, and what follows it."""

    async def start(self, task: str, **overrides: Any) -> ScriptedRun:
        """Start the one run; raises `refusal` if the test has set one."""
        if self._app.refusal is not None:
            raise self._app.refusal
        if self._app.has_open_run:
            raise ConfigError("this session runs a task already", hint="wait for its end")
        mode = known_mode(overrides.get("mode", self._app.options.mode))
        check_limit(overrides.get("timeout_s"))
        self._app.run_mode, self._app.mode_set = mode, None
        self._app.run, self._app.overrides = ScriptedRun(self._app.session), overrides
        self._app.say("run_started", task=task, workspace=self._app.options.workspace)
        self._app.on_run(self._app.run)
        return self._app.run

    async def resume(self) -> ScriptedRun:
        """Go on with the run that was interrupted."""
        self._app.run = ScriptedRun(self._app.session)
        self._app.on_run(self._app.run)
        self._app.say("run_resumed")
        return self._app.run

    async def follow_up(self, task: str, images: Sequence[str] = ()) -> ScriptedRun:
        """Start the run of a follow-up task, which is kept in `continued`."""
        if self._app.run is None:
            raise ConfigError("no master has run yet", hint="start a run", code="no_master")
        self._app._show(images)
        was = self._app.run_mode
        mode = self._app.mode_set or was
        run = await self.start(task)
        self._app.run_mode = mode
        self._app.switch_mode(was)
        self._app.switch_models()
        self._app.continued.append(task)
        return run

    async def interrupt(self) -> bool:
        if self._app.run is None or self._app.run.ended.done():
            return False
        why = "the run was interrupted"
        self._app.finish(RunResult(status="interrupted", summary="", exit_code=130, error=why))
        return True

    async def set_mode(self, mode: PermissionMode) -> None:
        self._app.mode_set = known_mode(mode)
        self._app.options = replace(self._app.options, mode=self._app.mode_set)

    async def budget(self) -> door.BudgetReport:
        """Return a budget of which nothing is used."""
        return tell_budget(BudgetScope().report(), Spent())


@takes_checked
class ScriptedAgents(_Group, Agents):
    """The agents that a test has spawned."""

    async def tree(self) -> door.AgentTree:
        """Return the agents that were spawned; what a script does not know is None."""
        return self._app._tree(lambda _: {})

    async def history(
        self, agent: str, detail: str = "full", *, before: int | None = None, limit: int = 200
    ) -> Sequence[door.HistoryEntry]:
        from prsm_testing.memory_store import MemoryStore  # which most frontends' tests spare

        agent_id = self._app._resolve(agent)
        async with MemoryStore() as store:
            said = (event for event in self._app._log if event.seq is not None)
            store.ledger.events[self._app.session] = list(said)
            return await read_history(
                store, self._app.session, agent_id, detail, before=before, limit=limit
            )

    async def prompt(
        self, agent: str, text: str, delivery: str = "queue", images: Sequence[str] = ()
    ) -> str:
        """Keep the prompt, and in `shown` its images."""
        agent_id = self._app._resolve(agent)
        if delivery not in _DELIVERIES:
            raise ConfigError(
                f"there is no delivery {delivery!r}", hint=f"use one of {', '.join(_DELIVERIES)}"
            )
        if not text.strip() and not images:
            raise ConfigError("what is said is blank", hint="say something", code="blank")
        self._app._show(images)
        self._app.prompts.append((agent_id, text, delivery))
        self._app._wake()
        return _DELIVERIES[delivery]

    async def set_model(self, agent: str, model: str) -> str:
        """Keep the order; a provider that no row or agent has is none."""
        agent_id, spawned = self._app._resolve(agent), self._app._spawned()
        if not model.strip():
            hint = "`prsm models list` tells all"
            raise ConfigError("no model is named", hint=hint, code="no_model")
        provider, _, name = model.rpartition("/")
        provider = provider or spawned[agent_id]["provider"]
        known = {row.provider for row in self._app.model_rows}
        known |= {told["provider"] for told in spawned.values()}
        if provider not in known:
            hint = f"the nearest names: {', '.join(sorted(known))}"
            raise ModelNotAvailableError(f"there is no model {model!r}", hint=hint)
        self._app.models_set[agent_id] = f"{provider}/{name}"
        self._app._wake()
        return self._app.models_set[agent_id]

    async def kill(self, agent: str) -> Sequence[str]:
        """Keep the order; the agent alone counts as ended by it."""
        self._app.killed.append(self._app._resolve(agent))
        self._app._wake()
        return [agent]

    async def restart(self, agent: str, prompt: str) -> None:
        self._app.restarted.append((self._app._resolve(agent), prompt))
        self._app._wake()


@takes_checked
class ScriptedRequests(_Group, Requests):
    """What a test has agents ask."""

    async def open(self) -> Sequence[door.OpenRequest]:
        names = self._app._names()
        requests = []
        for event in self._app._open.values():
            kind, agent = _REQUESTS[event.type], event.agent or ""
            asker = {"agent": agent, "name": names.get(agent, ""), "opened_at": event.ts}
            requests.append({**_UNTOLD, **event.data, "kind": kind, **asker})
        return convert(requests, list[door.OpenRequest])

    async def resolve(self, request: str, verdict: str, *, via: str = "") -> bool:
        event = self._app._open_request(request, "permission")
        if event is None:
            return False
        options = event.data.get("options") or ()
        if options and verdict not in options:
            raise ConfigError(f"{verdict!r} is no answer to this request")
        self._app.answers.append((request, verdict))
        ended: dict[str, Any] = {"request": request, "verdict": verdict, "by": "user", "via": via}
        self._app.say("permission_resolved", event.agent, **ended)
        return True

    async def answer(self, request: str, answer: Answer, *, via: str = "") -> bool:
        event = self._app._open_request(request, "question")
        if event is None:
            return False
        several = bool(event.data.get("multiple"))
        check_choices(answer.choices, event.data.get("options") or (), multiple=several)
        self._app.answers.append((request, answer))
        said = {"choices": list(answer.choices), "text": answer.text}
        ended: dict[str, Any] = {"request": request, "answer": said, "by": "user", "via": via}
        self._app.say("question_answered", event.agent, **ended)
        return True

    async def outcome(self, request: str) -> door.RequestOutcome | None:
        ends = [event.data for event in self._app._log if event.type in _ENDS]
        matches = [data for data in ends if request and data["request"].startswith(request)]
        return convert(matches[0], door.RequestOutcome) if len(matches) == 1 else None

    async def attend(self) -> None:
        self._app.attended += 1
        self._app._wake()


@takes_checked
class ScriptedChanges(_Group, Changes):
    """The changes that a test has given; no file is touched."""

    async def list(self) -> Sequence[door.Change]:
        return [told_change(row, self._app._names()) for row in self._app.change_rows]

    async def show(self, change: str) -> door.ChangeDetail:
        row = find_row(self._app.change_rows, change)
        diff = self._app.change_diffs.get(row.change.id, "")
        return told_detail(row, self._app._names(), self._reason(row), diff)

    async def rationale(self, path: str, line: int | None = None) -> door.Rationale:
        """Return why a change that the test has given was made; all lines are of the newest."""
        row = of_path(self._app.change_rows, self._app.options.workspace, path)[0]
        return told_reason(row, self._app._names(), self._reason(row))

    async def accept(
        self, changes: Sequence[str] = (), *, agent: str | None = None, call: str | None = None
    ) -> Sequence[door.DecidedChange]:
        """Accept changes; an agent has none below it."""
        return self._decide(accepted(self._chosen(changes, agent, call)))

    async def reject(
        self,
        changes: Sequence[str] = (),
        *,
        agent: str | None = None,
        call: str | None = None,
        possible: bool = False,
    ) -> Sequence[door.DecidedChange]:
        """Take changes back: all of them merge."""
        return self._reject(self._chosen(changes, agent, call, is_sure=not possible))

    async def comment(
        self, comments: Sequence[Comment], delivery: str = "queue"
    ) -> Sequence[door.SentComments]:
        """Prompt the agents that made the changes, or begin a follow-up, as the engine does."""
        check_comments(comments)
        names, remarks = self._app._names(), []
        for one in comments:
            row = find_row(self._app.change_rows, one.change)
            lines = chosen_lines(self._app.change_diffs.get(row.change.id, ""), one)
            remarks.append(Remark(told_change(row, names), lines, one.text))
        nodes = list((await self._app.agents.tree()).walk())
        ended = {state.value for state in AgentState if state.is_terminal}
        at_work = {node.id for node in nodes if node.state not in ended}
        team = Team({node.id: node.parent for node in nodes}, at_work, self._app.has_open_run)
        return await send(remarks, team, self._say, delivery)

    async def _say(self, agent: str | None, text: str, delivery: str) -> str:
        if agent is not None:
            return await self._app.agents.prompt(agent, text, delivery)
        _ = await self._app.runs.follow_up(text)
        return "follow_up"

    async def commit(
        self,
        changes: Sequence[str] = (),
        *,
        agent: str | None = None,
        by: str = "agent",
        message: str | None = None,
        dry_run: bool = False,
    ) -> door.CommitReport:
        """Note accepted changes as committed, all in one commit; there is no repository."""
        Wording(by=by, message=message).check()
        rows = self._chosen(changes, agent, None, {ACCEPTED})
        commit = Commit(
            root="",
            message=message or "changes",
            changes=tuple(row.change.id for row in rows),
            files=tuple(row.change.path for row in rows),
            id="" if dry_run else COMMIT,
        )
        outcome = Outcome(commits=(commit,) if rows else ())
        if not dry_run:
            self._decide(committed(rows, outcome))
        return told_outcome(outcome, rows, self._app._names())

    async def undo(
        self,
        what: str = "prompt",
        wanted: str | None = None,
        *,
        files: bool = True,
        conversation: bool = True,
        mine: bool = False,
        possible: bool = False,
    ) -> door.UndoReport:
        """Take the last turn's changes back; nothing is kept that another undo would need."""
        check_way(what)
        if what == "turn":
            rows = of_last_turn(self._app.change_rows, with_possible=possible)
            return door.UndoReport(decided=self._reject(rows))
        if self._app.has_open_run:
            raise run_open(self._app.session)
        if what == "act":
            if not self._app.restored:
                raise nothing_to_undo()
            return self._app._told_restore(self._app.restored.pop())
        raise nothing_kept(self._app.session)

    async def worktrees(self) -> Sequence[door.LeftWorktree]:
        return ()

    async def hold_files(self) -> AsyncGenerator[Sequence[str], None]:
        yield ()
        await asyncio.get_running_loop().create_future()  # until it is closed

    def _reason(self, row: ChangeRow) -> door.Reason | None:
        author = row.change.author
        if author is None:
            return None
        said = [event for event in self._app._log if event.agent == author.agent]
        return find_reason(conversation(said, numbered=True), author.call)

    def _chosen(
        self,
        ids: Sequence[str],
        agent: str | None,
        call: str | None,
        states: Collection[str] = OPEN_STATES,
        *,
        is_sure: bool = False,
    ) -> Sequence[ChangeRow]:
        agents = None if agent is None else frozenset({self._app._resolve(agent)})
        choice = Choice(ids=tuple(ids), agents=agents, call=call, is_sure=is_sure)
        return choose(self._app.change_rows, choice, states)

    def _reject(self, rows: Iterable[ChangeRow]) -> tuple[door.DecidedChange, ...]:
        return self._decide([Decision(r.change.id, r.change.path, REJECTED) for r in rows])

    def _decide(self, made: Sequence[Decision]) -> tuple[door.DecidedChange, ...]:
        by_id = {one.id: {"state": one.state, "why": one.why} for one in made}
        self._app.change_rows = [
            replace(row, **by_id.get(row.change.id, {})) for row in self._app.change_rows
        ]
        told = tuple(map(told_decision, made))
        if told:
            self._app.say("changes_decided", changes=to_builtins(list(told)))
        return told


@takes_checked
class ScriptedSnapshots(_Group, Snapshots):
    """The snapshots that a test has given, or a frontend took."""

    async def list(self) -> Sequence[door.Snapshot]:
        return self._app.snapshot_rows

    async def take(self, description: str = "") -> door.Snapshot:
        """Note a snapshot, if the test says that files are kept; else raise ConfigError."""
        if not self._app.keeps_files:
            raise not_kept()
        row = SessionSnapshot(
            snapshot_id=f"{len(self._app.snapshot_rows) + 1:010x}",
            last_commit=len(self._app._log),
            kind="manual",
            taken_at=float(len(self._app._log)),
            folder=self._app.options.workspace,
            tree="",
            description=description,
        )
        self._app.snapshot_rows.append(tell_snapshot(self._app.session, row))
        return self._app.snapshot_rows[-1]

    async def restore(self, snapshot: str, *, dry_run: bool = False) -> door.UndoReport:
        """Note a restore; what it changes is what the test has said."""
        if not dry_run and self._app.has_open_run:
            raise run_open(self._app.session)
        if not self._app.keeps_files:
            raise not_kept()
        if snapshot not in {one.id for one in self._app.snapshot_rows}:
            raise ConfigError(f"there is no snapshot {snapshot!r}", code="unknown_snapshot")
        if dry_run:
            return replace(self._app._told_restore(snapshot), snapshot=None)
        self._app.restored.append(snapshot)
        return self._app._told_restore(snapshot)


@takes_checked
class ScriptedSessions(_Group, Sessions):
    """This session and its forks."""

    async def list(self) -> Sequence[door.SessionSummary]:
        begun = [event for event in self._app._log if event.type == "run_started"]
        run = (await self._app.view()).run
        own = door.SessionSummary(
            session=self._app.session,
            run=None if run is None else run.id,
            status=None if run is None else run.status,
            task=begun[0].data["task"] if begun else "",
            workspace=self._app.options.workspace,
            started_at=begun[0].ts if begun else 0.0,
            name=None,
            last_seq=self._app._seq,
            pid=os.getpid(),
            origin=None,
        )
        fork = replace(own, status="interrupted", pid=None, origin=self._app.session)
        return [*(replace(fork, session=session) for session in reversed(self._app.forks)), own]

    async def fork(self, at: int | None = None) -> str:
        """Name another session, which has nothing of its own; raises StoreError for no event."""
        if at is not None and not 0 < at <= self._app._seq:
            raise StoreError(f"this session has no event {at}", code="unknown_position")
        self._app.forks.append(f"{self._app.session}-fork-{len(self._app.forks) + 1}")
        return self._app.forks[-1]


def _lines(diff: str, sign: str) -> int:
    """Return how many lines of a patch have a sign; those that name the file have three."""
    return sum(
        line.startswith(sign) and not line.startswith(sign * 3) for line in diff.splitlines()
    )


async def settle() -> None:
    """Let every task that can go on do so."""
    for _ in range(50):
        await asyncio.sleep(0)


@takes_checked
class ScriptedApp:
    """AppHandle that keeps what it is asked and tells what a test says, as the engine would.

    A person's answer becomes an event, and the second one to a request is refused. `refusal`, if
    set, is raised by `start_run`. `readers` counts the open iterators over its events.
    """

    def __init__(self, options: RunOptions | None = None) -> None:
        self.runs = ScriptedRuns(self)
        self.agents = ScriptedAgents(self)
        self.requests = ScriptedRequests(self)
        self.changes = ScriptedChanges(self)
        self.snapshots = ScriptedSnapshots(self)
        self.sessions = ScriptedSessions(self)
        self.change_rows: list[ChangeRow] = []  # which the session has found
        self.change_diffs: dict[str, str] = {}  # of some of them, by their ids
        self.keeps_files = False  # whether snapshots can be taken
        self.snapshot_rows: list[door.Snapshot] = []  # as `snapshots` tells them
        self.restore_changes: Sequence[door.ChangedFile] = ()  # of each restore
        self.restored: list[str] = []  # snapshots, in the order of their restores
        self._log: list[Event] = []  # all that was said
        self.options = options or RunOptions(task="do it")
        self.session = self.options.session or SESSION
        self.refusal: Exception | None = None
        self.run: ScriptedRun | None = None
        self.on_run: Callable[[ScriptedRun], object] = lambda run: None  # is given each that begins
        self.overrides: Mapping[str, Any] = {}
        self.answers: list[tuple[str, str | Answer]] = []
        self.prompts: list[tuple[str, str, str]] = []  # agent, text, delivery
        self.killed: list[str] = []
        self.restarted: list[tuple[str, str]] = []
        self.models_set: dict[str, str] = {}  # by agent, "provider/model" of its next turn
        self.continued: list[str] = []
        self.shown: list[tuple[str, ...]] = []  # the images of each prompt and follow-up with some
        self.takes_images = True
        self.forks: list[str] = []  # sessions, oldest first
        self.provider_rows: Sequence[door.ProviderReport] = ()
        self.run_mode = self.options.mode  # of the newest run
        self.mode_set: PermissionMode | None = None  # since that began
        self.model_rows: Sequence[door.ModelRow] = ()
        self.policy_told = door.PolicyReport()
        self.readers = 0
        self.attended = 0
        self._seq = 0
        self._open: dict[str, Event] = {}
        self._is_closed = False
        self._changed = asyncio.Event()  # set and replaced whenever something happens

    def say(
        self,
        kind: str,
        agent: str | None = None,
        /,
        *,
        run: str = RUN,
        live: bool = False,
        **data: Any,
    ) -> None:
        """Commit an event (with `live`: send it as one that is never committed)."""
        event = Event(
            type=kind, session=self.session, run=run, ts=self._seq + 1.0, agent=agent, data=data
        )
        self.tell(event if live else event.at(self._seq + 1))

    def tell(self, event: Event) -> None:
        """Pass an event on as it is."""
        self._log.append(event)
        self._seq = max(self._seq, event.seq or 0)
        if event.type in _REQUESTS:
            self._open[event.data["request"]] = event
        elif event.type in _ENDS:
            self._open.pop(event.data["request"], None)
        self._wake()

    def spawn(
        self,
        agent: str = "m",
        name: str = "master",
        parent: str | None = None,
        prompt: str = "do it",
    ) -> None:
        """Tell of a new agent."""
        self.say(
            "agent_spawned",
            agent,
            name=name,
            parent=parent,
            role="worker" if parent else "master",
            provider="echo",
            model="default",
            depth=1 if parent else 0,
            prompt=prompt,
        )

    def find_change(
        self, change: str, path: str, agent: str | None = None, *, diff: str = "", **fields: Any
    ) -> None:
        """Let the session have found a change of an agent, which is told; None: from outside.

        Its lines are those of `diff`, which a patch begins; `call`, `turn` and `state` are further
        fields, as are those of a FileChange.
        """
        row = {"state": fields.pop("state", "pending")}
        author = {"call": fields.pop("call", ""), "turn": fields.pop("turn", None)}
        made = FileChange(
            **{
                "id": change,
                "scan": change,
                "path": path,
                "folder": self.options.workspace,
                "kind": "modified",
                "added": _lines(diff, "+"),
                "removed": _lines(diff, "-"),
                "how": "outside" if agent is None else "named",
                "authors": () if agent is None else (Author(agent, **author),),
                **fields,
            }
        )
        self.change_rows.append(ChangeRow(change=made, at=float(len(self._log)), **row))
        self.change_diffs[change] = diff
        about = {name: getattr(made, name) for name in ("path", "kind", "how", "added", "removed")}
        self.say("file_changed", agent, change=change, **about)

    def finish(self, result: RunResult | None = None, **data: Any) -> None:
        """End the run, as completed if nothing else is said: `run_finished`, then its result.

        `data` are further fields of the event.
        """
        result = result or COMPLETED
        if self.run is None:
            raise RuntimeError("the frontend has not started a run")
        told: dict[str, Any] = {
            "status": result.status,
            "summary": result.summary,
            "error": result.error,
            "duration_s": 74.0,
            "usage": result.usage.to_dict(),
        }
        self.say("run_finished", **{**told, **data})
        if not self.run.ended.done():  # nor cancelled by a frontend
            self.run.ended.set_result(result)

    async def close(self) -> None:
        """Close the session: what runs is interrupted, and its readers have read all."""
        await self.runs.interrupt()
        self.hang_up()

    def hang_up(self) -> None:
        """Have the session's readers read to its end, as where its owner ends."""
        self._is_closed = True
        self._wake()

    def reopen(self, options: RunOptions) -> None:
        """Open the session again, with all that was said."""
        self.options, self._is_closed = options, False

    async def take_over(self, origin: ScriptedApp, at: int | None) -> None:
        """Begin as another session is now, or was at event `at`; what ran there is interrupted."""
        said = [event for event in origin.said if at is None or (event.seq or 0) <= at]
        for event in said:
            self.tell(structs.replace(event, session=self.session))
        self.run = ScriptedRun(self.session)
        await self.runs.interrupt()

    @property
    def said(self) -> Sequence[Event]:
        """The committed events, oldest first."""
        return [event for event in self._log if event.seq is not None]

    @property
    def has_open_run(self) -> bool:
        """Whether a run is open."""
        return self.run is not None and not self.run.ended.done()

    async def started(self) -> ScriptedRun:
        """Wait until the frontend has started its run."""
        while self.run is None:
            await self._changed.wait()
        return self.run

    async def answered(self, request: str) -> str | Answer:
        """Wait until the frontend has answered a request; return the answer."""
        while (found := dict(self.answers).get(request)) is None:
            await self._changed.wait()
        return found

    def switch_mode(self, was: PermissionMode) -> None:
        """Have the last master live on in the mode of the run."""
        masters = [agent for agent, told in self._spawned().items() if not told["parent"]]
        if masters and (mode := self.run_mode.value) != was.value:
            told: dict[str, Any] = {"from": was.value, "to": mode, "mode": mode}
            self.say("agent_mode_changed", masters[-1], **told)

    def switch_models(self) -> None:
        """Have the next turns begin of the models that were set."""
        while self.models_set:
            agent_id, name = self.models_set.popitem()
            provider, _, model = name.partition("/")
            told: dict[str, Any] = {"provider": provider, "model": model, "reasoning_effort": None}
            self.say("agent_model_changed", agent_id, **told)

    async def events(self, after: int = 0) -> AsyncGenerator[Event, None]:
        if after > self._seq:
            raise no_such_event(self.session, after)
        replay = [event for event in self._log if event.seq is not None and event.seq > after]
        place = len(self._log)
        self.readers += 1
        try:
            for event in replay:
                yield event
            while True:
                while place < len(self._log):
                    place += 1
                    yield self._log[place - 1]
                if self._is_closed:
                    return
                await self._changed.wait()
        finally:
            self.readers -= 1

    def _tree(self, more: Callable[[str | None], Mapping[str, Any]]) -> door.AgentTree:
        def tell(agent: str | None) -> Mapping[str, Any]:
            waiting = [
                {**event.data, "kind": _REQUESTS[event.type], "since": event.ts}
                for event in self._open.values()
                if event.agent == agent
            ]
            chosen = self.models_set.get(agent or "")
            return {"waits_for_user": waiting, "next_model": chosen, **more(agent)}

        return door.AgentTree(
            session=self.session,
            run=RUN,
            is_live=True,
            spent=door.Usage(),
            agents=convert(_told_tree(self._log, tell), tuple[door.AgentNode, ...]),
        )

    async def view(self) -> door.View:
        """Return what was said as one picture; what is not known is None."""
        runs = SessionLog()
        for event in self._log:
            if event.run == RUN and event.type in _OF_RUNS:
                runs.add(event)
        mode, labels = self.options.mode.value, self._labels()
        return door.View(
            seq=self._seq,
            session=self.session,
            run=runs.run,
            tree=self._tree(
                lambda id_: {**_UNKNOWN, "mode": mode, "labels": labels.get(id_ or "", {})}
            ),
            requests=tuple(await self.requests.open()),
            turns=_running_turns(self._log),
            mode=mode,
            budget=await self.runs.budget(),
        )

    async def providers(self) -> Sequence[door.ProviderReport]:
        return self.provider_rows

    async def models(self) -> Sequence[door.ModelRow]:
        return self.model_rows

    async def policy(self) -> door.PolicyReport:
        return self.policy_told

    async def complete(self, text: str) -> Sequence[door.Completion]:
        return await complete_word(text, self.options.workspace, self._names().values())

    def _show(self, images: Sequence[str]) -> None:
        if images and not self.takes_images:
            raise ConfigError("script takes no images", code="no_images")
        check_images(images, Path(self.options.workspace))
        if images:
            self.shown.append(tuple(images))

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _open_request(self, request: str, kind: str) -> Event | None:
        event = self._open.get(request)
        return event if event is not None and _REQUESTS[event.type] == kind else None

    def _resolve(self, agent: str) -> str:
        for agent_id, name in self._names().items():
            if agent in (agent_id, name):
                return agent_id
        raise MessageRoutingError(f"no agent is called {agent!r}", code="unknown_agent")

    def _told_restore(self, snapshot: str) -> door.UndoReport:
        changes = tuple(self.restore_changes)
        return door.UndoReport(
            restored=snapshot, snapshot=SAFETY, act=SAFETY, files=len(changes), changes=changes
        )

    def _spawned(self) -> dict[str, Mapping[str, Any]]:
        """Return what is told of the agents that were spawned, by their ids."""
        return {e.agent or "": e.data for e in self._log if e.type == "agent_spawned"}

    def _names(self) -> dict[str, str]:
        return {agent: told["name"] for agent, told in self._spawned().items()}

    def _labels(self) -> dict[str, Mapping[str, str]]:
        told = [e for e in self._log if e.type in {"agent_spawned", "agent_labels_changed"}]
        return {event.agent or "": event.data.get("labels") or {} for event in told}


def _running_turns(log: Sequence[Event]) -> tuple[door.RunningTurn, ...]:
    """Return the turns of which pieces were told, each with what is not committed yet."""
    turns: dict[str | None, dict[str, Any]] = {}
    for event in log:
        turn, (turn_id, message) = turns.get(event.agent), map(event.data.get, ("turn", "message"))
        if event.type in _LIVE:
            if turn is None or (turn["turn"], turn["message"]) != (turn_id, message):
                turn = turns[event.agent] = _turn(event.agent, turn_id, message)
            turn[_LIVE[event.type]] += event.data["text"]
            turn["at"] = len(turn["text"])
        elif event.type == "turn_finished":
            turns.pop(event.agent, None)
        elif turn is not None and event.type == "message_completed" and turn["message"] == message:
            turns[event.agent] = _turn(event.agent, turn_id, (message or 0) + 1)
    return convert(list(turns.values()), tuple[door.RunningTurn, ...])


def _turn(agent: str | None, turn_id: Any, message: Any) -> dict[str, Any]:
    said = {"message": message, "text": "", "thinking": "", "at": 0, "unwritten": []}
    return {"agent": agent, "turn": turn_id, "n": 1, **said}


def _told_tree(
    log: Iterable[Event], tell: Callable[[str | None], Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the agents that were spawned, below each other, with what else is told of each."""
    nodes: dict[str | None, dict[str, Any]] = {}
    roots: list[dict[str, Any]] = []
    for event in log:
        if event.type == "agent_spawned":
            told = {**event.data, "id": event.agent, "run": event.run, "children": []}
            node = {"state": "pending", **told, **tell(event.agent)}
            nodes[event.agent] = node
            parent = nodes.get(event.data["parent"])
            (roots if parent is None else parent["children"]).append(node)
        elif event.type == "agent_state_changed" and event.agent in nodes:
            nodes[event.agent]["state"] = event.data["to"]
        elif event.type == "agent_model_changed" and event.agent in nodes:
            nodes[event.agent].update(event.data)
    return roots
