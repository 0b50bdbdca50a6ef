"""Worktrees of agents: given at the spawn, merged at the end, removed once all of it is merged.

The folder of an agent tells whether it has one. What becomes of its changes is told in the step of
its end, so it is told once. What git did before a crash is done: it is found in the record.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins
from msgspec.structs import replace

from prsm_core import AgentRole, AgentState, PermissionMode, PrsmError
from prsm_core.domain.tools import WRITING_TOOLS
from prsm_core.engine.state import told_region
from prsm_core.files import (
    AgentSpawnError,
    Folders,
    Trees,
    WritingCall,
    path_text,
    repo_identity,
    run_shell,
)
from prsm_core.kit import first_of
from prsm_core.policies import is_within
from prsm_files.session.keeper import explain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prsm_core.door import LeftWorktree
    from prsm_core.files import AgentDescriptor, AgentRecord, FilesContext, Roster, SpawnRequest
    from prsm_files.session.keeper import FilesKeeper
    from prsm_files.shadow.whereabouts import Where
    from prsm_files.shadow.worktree import Shadow
    from prsm_files.worktrees.records import Outcome, Tree
    from prsm_files.worktrees.worktrees import Made, Worktrees


LEAVE_SECONDS = 5.0  # for the removal of worktrees, at the end of a run
OUTPUT_LIMIT = 4 * 2**10  # bytes of a set-up command
SHOWN_LINES = 10
SHOWN = 20  # files that an event and a parent are told

_PROMPT = (
    "You work in a git worktree of your own, on the branch {branch}: a copy of your parent's files "
    "as they are. What you change there is merged into your parent's files once you complete your "
    "task. Do not merge, push or change branches yourself. Servers that you start listen on the "
    "port of PRSM_PORT."
)
_REGION_PROMPT = (
    "Only what you may write is merged: what you change elsewhere stays on the branch, and your "
    "parent is told."
)


class TreeKeeper(Trees):
    """Owns which worktrees are being removed; all else is on the disk."""

    def __init__(
        self,
        of: FilesContext,
        keeper: FilesKeeper | None,
        folders: Workspaces,
        look_at: Callable[[Shadow, tuple[str, ...]], None],
    ) -> None:
        self._of = of
        self._keeper = keeper
        self._folders = folders
        self._look_at = look_at
        self._leaving: dict[str, asyncio.Task[None]] = {}  # by agent

    def is_wanted(self, request: SpawnRequest, plan: AgentDescriptor) -> bool:
        """Return whether a new agent is to have one: it was asked for, or the settings want it."""
        if request.worktree is not None:
            return request.worktree
        writes = bool(plan.tools & WRITING_TOOLS) and plan.mode is not PermissionMode.PLAN
        is_worker = request.role is AgentRole.WORKER
        return self._of.settings.workspace.worktrees == "writers" and is_worker and writes

    async def give(self, record: AgentRecord) -> None:
        """Make a worktree for an agent that is about to be born. Raises AgentSpawnError."""
        tree = await self._make(record, None)
        record.descriptor = _moved(record.descriptor, tree)
        await self._furnish(record, tree.id)

    async def drop(self, records: Sequence[AgentRecord]) -> None:
        """Remove the worktrees of agents that were not born after all."""
        gone = {record.agent_id for record in records if self._own(record) is not None}
        for record in records if gone else ():
            folder = self._folder_above(record)
            await self._attempt(folder, lambda trees: trees.sweep(lambda one: one.agent in gone))

    async def ensure(self, record: AgentRecord) -> None:
        """Have the worktree of an agent that is to live again: as it was left, or made anew."""
        tree_id = self._own(record)
        if tree_id is None:
            return
        if (task := self._leaving.get(record.agent_id)) is not None:
            await asyncio.wait({task})
        if not await asyncio.to_thread(Path(self._top(record)).exists):
            await self._make(record, tree_id)
            await self._furnish(record, tree_id)
            return
        folder = self._folder_above(record)
        tree = await self._attempt(folder, lambda trees: trees.find(tree_id))
        if tree is not None:
            self._folders.note_port(tree.folder, tree.port)

    async def settle(self, record: AgentRecord, state: AgentState) -> Mapping[str, Any] | None:
        """Merge what an agent changed, if it succeeded; return what is told of its worktree."""
        tree_id = self._own(record)
        if tree_id is None:
            return None
        is_wanted = state is AgentState.COMPLETED
        call = self._call(record)
        quiet = self._of.quiet
        quiet.asks(call)
        try:
            if not await quiet.enter(call):
                is_wanted = False  # the engine closes
            message = self._message(record)
            loop = asyncio.get_running_loop()

            def work(trees: Worktrees) -> Outcome:
                writing = partial(self._writing, call, trees.shadow, loop)
                return trees.settle(tree_id, message, is_wanted=is_wanted, writing=writing)

            told = _told(await self._use(self._folder_above(record), work))
        except (PrsmError, OSError) as error:
            told = {"result": "kept", "why": explain(error)}
        finally:
            quiet.ended(call)
        return {"worktree": self._top(record), **told}

    @contextmanager
    def _writing(
        self,
        call: WritingCall,
        shadow: Shadow,
        loop: asyncio.AbstractEventLoop,
        files: Sequence[str],
    ) -> Iterator[None]:
        """Have files be a merge's own for the block, in a thread; calls are known in the loop."""
        all_ = tuple(f"{shadow.folder}/{file}" for file in files)

        async def owns() -> None:
            self._of.quiet.owns(call, all_)

        async def ended() -> None:
            self._of.quiet.ended(call)

        asyncio.run_coroutine_threadsafe(owns(), loop).result()
        self._look_at(shadow, all_)
        try:
            yield
        finally:
            self._look_at(shadow, all_)
            asyncio.run_coroutine_threadsafe(ended(), loop).result()

    async def left(self, session: str) -> Sequence[LeftWorktree]:
        """Return the worktrees of a session's ended agents that are not merged."""
        where = self._folders.where
        if where is None:
            return ()
        from prsm_files.worktrees.records import left_of, told_left  # once somebody asks

        def read() -> list[LeftWorktree]:
            key = repo_identity(Path(self._folders.main)).key
            return [told_left(tree) for tree in left_of(where, key, session)]

        return await asyncio.to_thread(read)

    async def has_changed(self, record: AgentRecord) -> bool:
        """Return whether an agent has changed its worktree; also where nobody can tell."""
        tree_id = self._own(record)
        if tree_id is None:
            return False
        folder = self._folder_above(record)
        found = await self._attempt(folder, lambda trees: trees.has_changed(tree_id))
        return found is not False

    def leave(self, record: AgentRecord, told: Mapping[str, Any]) -> None:
        """Remove the worktree of an agent that has ended, once its life has let go of all."""
        tree_id = self._own(record)
        if tree_id is None or told["result"] not in {"merged", "nothing"}:
            return
        work = self._remove(record, tree_id)
        name = f"the worktree of {record.descriptor.name}"
        self._leaving[record.agent_id] = self._of.background.start(work, name=name)

    async def _remove(self, record: AgentRecord, tree_id: str) -> None:
        try:
            life = self._of.task_of(record.agent_id)
            if life is not None and life is not asyncio.current_task():
                await asyncio.wait({life})
            await self._attempt(self._folder_above(record), lambda trees: trees.finish(tree_id))
        finally:
            self._leaving.pop(record.agent_id, None)

    async def settled(self) -> None:
        """Wait until what is merged is removed, for a while; the next start removes the rest."""
        tasks = set(self._leaving.values())
        if tasks:
            seconds = self._of.background.parting.most(LEAVE_SECONDS)
            await first_of(self._of.clock, seconds, lambda: asyncio.wait(tasks))

    async def recover(self, folder: Path) -> list[str]:
        """Finish what a dead process left in the repository of a folder; return notices."""
        where, session = self._folders.where, self._of.session
        key = repo_identity(folder).key
        if where is None or not any(where.repository(key).glob("*/record.json")):
            return []
        from prsm_files.worktrees.records import read_all  # once there is one

        ended = {
            row.descriptor.agent_id: row.descriptor.state.is_terminal
            for row in await self._of.store.agents(session)
        }

        def recover(trees: Worktrees) -> list[str]:
            notes = trees.sweep(lambda one: one.session == session and one.agent not in ended)
            for tree in all_:
                is_over = tree.session == session and ended.get(tree.agent)
                if is_over and tree.parent == parent and trees.find(tree.id) is not None:
                    trees.finish(tree.id)
            return notes

        notes: list[str] = []
        all_ = await asyncio.to_thread(lambda: list(read_all(where, key)))
        for parent in dict.fromkeys(tree.parent for tree in all_):
            if await asyncio.to_thread(Path(parent).is_dir):
                notes += await self._attempt(Path(parent), recover) or ()
        return notes

    def _own(self, record: AgentRecord) -> str | None:
        return self._folders.own(record, self._of.roster)

    def _top(self, record: AgentRecord) -> str:
        return self._folders.top(record.descriptor.cwd) or record.descriptor.cwd

    def _folder_above(self, record: AgentRecord) -> Path:
        parent = self._of.roster.parent_of(record)
        return Path((record if parent is None else parent).descriptor.cwd)

    async def _make(self, record: AgentRecord, again: str | None) -> Tree:
        from prsm_files.worktrees.worktrees import Whose  # once one is wanted

        agent = record.descriptor
        whose = Whose(agent.session_id, agent.agent_id, agent.name)

        def work(trees: Worktrees) -> Made:
            top = str(trees.shadow.folder) if again is None else self._top(record)
            region = agent.grant.region
            below = None if region is None else [os.path.relpath(path, top) for path in region]
            return trees.make(whose, again, region=below)

        try:
            made: Made = await self._use(self._folder_above(record), work)
        except PrsmError as error:
            raise _none(error.message, error.hint) from error
        except OSError as error:
            raise _none(str(error)) from error
        self._warn(agent, made.notes)
        self._folders.note_port(made.tree.folder, made.tree.port)
        return made.tree

    async def _furnish(self, record: AgentRecord, tree_id: str) -> None:
        """Have in a new worktree what its agent needs, or remove it. Raises AgentSpawnError."""
        agent, above = record.descriptor, self._folder_above(record)
        source, target = (Path(self._folders.of(one)) for one in (str(above), agent.cwd))
        names = self._of.settings.workspace.worktree_copy
        try:
            await asyncio.to_thread(Path(agent.cwd).mkdir, parents=True, exist_ok=True)
            self._warn(agent, await asyncio.to_thread(list, copy_all(names, source, target)))
            await set_up(self._of, target, self._folders.variables(agent.cwd))
        except BaseException:
            await self._attempt(above, lambda trees: trees.discard(tree_id))
            raise

    def _warn(self, agent: AgentDescriptor, notes: Iterable[str]) -> None:
        for note in notes:
            text = f"the worktree of {agent.name}: {note}"
            self._of.journal.note("notice", agent.parent_id, level="warning", text=text)

    async def _use(self, folder: Path, work: Callable[[Worktrees], Any]) -> Any:
        keeper, where = self._keeper, self._folders.where
        if keeper is None or where is None:
            raise _none("nobody looks after the files here, so there are no worktrees")
        return await keeper.use(folder, lambda shadow: work(_worktrees(shadow, where)))

    async def _attempt(self, folder: Path, work: Callable[[Worktrees], Any]) -> Any:
        keeper, where = self._keeper, self._folders.where
        if keeper is None or where is None:
            return None
        lost = "a worktree that was made from {} is not removed, or finished"
        return await keeper.attempt(folder, lambda shadow: work(_worktrees(shadow, where)), lost)

    def _call(self, record: AgentRecord) -> WritingCall:
        return WritingCall(
            agent=record.agent_id,
            name=record.descriptor.name,
            call=f"merge-{record.incarnation}",
            tool="merge",
            command=None,
            paths=(),
            cwd=str(self._folder_above(record)),
            since=self._of.clock.now(),
            owned=(),
        )

    def _message(self, record: AgentRecord) -> str:
        agent = record.descriptor
        lines = agent.prompt.strip().splitlines()
        head = f"{agent.name}: {lines[0].strip() if lines else 'its task'}"
        trailers = f"PRSM-Agent: {agent.name}\nPRSM-Session: {agent.session_id}"
        return str(self._of.journal.redact(f"{head}\n\n{trailers}"))


def _moved(agent: AgentDescriptor, tree: Tree) -> AgentDescriptor:
    """Return an agent with its folders in a worktree, where they are in its parent's tree."""

    def there(path: str) -> str:
        below = os.path.relpath(os.path.realpath(path), tree.parent)
        return os.path.normpath(os.path.join(tree.folder, below))  # noqa: PTH118

    region, prompt = agent.grant.region, agent.system_prompt
    told = _PROMPT.format(branch=tree.branch)
    moved = None
    if region is not None:
        moved = tuple(map(there, region))
        prompt = prompt.replace(f"below {told_region(region)}.", f"below {told_region(moved)}.")
        told = f"{told} {_REGION_PROMPT}"
    return replace(
        agent,
        cwd=there(agent.cwd),
        grant=replace(agent.grant, region=moved),
        system_prompt=f"{prompt}\n\n{told}",
    )


def _worktrees(shadow: Shadow, where: Where) -> Worktrees:
    from prsm_files.worktrees.worktrees import Worktrees  # once there is one

    return Worktrees(shadow, where)


def _told(outcome: Outcome) -> dict[str, Any]:
    conflicts, left_out, outside = (
        [to_builtins(one.told()) for one in some[:SHOWN]]
        for some in (outcome.conflicts, outcome.left_out, outcome.outside)
    )
    return {
        "result": outcome.result,
        "branch": outcome.branch,
        "commit": outcome.commit,
        "act": outcome.act,
        "files": [path_text(path) for path in outcome.files[:SHOWN]],
        "count": len(outcome.files),
        "note": _note(outcome),
        "conflicts": conflicts,
        "left_out": left_out,
        "outside": outside,
        "outside_count": len(outcome.outside),
    }


def _note(outcome: Outcome) -> str:
    files = _few(outcome.files)
    if outcome.result == "nothing":
        return "It changed no files."
    if outcome.result == "merged":
        return f"Its changes are merged into your files: {files}."
    if outcome.result == "kept":
        return (
            f"What it changed ({files}) is not in your files: it is in its worktree, and on the "
            f"branch {outcome.branch}."
        )
    left, them = outcome.conflicts, "it"
    where = f"on the branch {outcome.branch}, and in its worktree:"
    head = (
        f"Nothing of what it changed ({files}) is in your files, for it does not merge with them. "
        f"It is {where}"
    )
    if outcome.result == "partial":
        left, them = outcome.outside, "them"
        outside = {one.path for one in left}
        merged = _few([path for path in outcome.files if path not in outside]) or "nothing"
        head = (
            f"Of its changes those in its region are merged into your files: {merged}. These are "
            f"not: they are {where}"
        )
    lines = [f"- {path_text(one.path)}: {one.why}" for one in left[:SHOWN]]
    if outcome.result == "partial" and len(left) > SHOWN:
        lines.append(f"- and {len(left) - SHOWN} more")
    cure = f"See {them} by: git diff HEAD {outcome.branch}. Take over what you want of it by hand."
    return "\n".join((head, *lines, cure))


def _few(files: Sequence[str]) -> str:
    more = f" and {len(files) - SHOWN} more" if len(files) > SHOWN else ""
    return ", ".join(map(path_text, files[:SHOWN])) + more


async def set_up(of: FilesContext, target: Path, variables: Mapping[str, str]) -> None:
    """Run the set-up command, of a workspace that is trusted. Raises AgentSpawnError."""
    command = of.settings.workspace.worktree_setup
    if command is None:
        return
    if not of.trusted:
        raise _failed("the workspace is not trusted", hint="`prsm trust` trusts it")
    seconds = of.settings.workspace.worktree_setup_seconds
    try:
        result = await run_shell(
            of.launcher,
            f"exec 2>&1\n{command}",
            cwd=os.fspath(target),
            timeout_s=seconds,
            clock=of.clock,
            env={**of.env, **variables},
            output_limit=OUTPUT_LIMIT,
            keep_end=True,
            sandbox=of.sandbox(),
        )
    except PrsmError as error:
        raise _failed(f"it could not run: {error.message}") from error
    if result.timed_out:
        raise _failed(f"it did not end within {seconds:g} s")
    if result.exit_code:
        lines = result.stdout.rstrip().splitlines()[-SHOWN_LINES:]
        raise _failed("\n".join((f"it ended with exit code {result.exit_code}", *lines)))


def _failed(why: str, hint: str = "correct workspace.worktree_setup") -> AgentSpawnError:
    return _none(f"the set-up of the worktree failed: {why}", hint)


def _none(what: str, hint: str | None = None) -> AgentSpawnError:
    cure = "; or ".join(filter(None, (hint, "spawn it with worktree: false")))
    return AgentSpawnError(what, hint=cure, code="no_worktree")


def copy_all(names: Sequence[str], source: Path, target: Path) -> Iterator[str]:
    """Copy what is named to another workspace, but over nothing; yield what was not copied."""
    for name in names:
        old, new = source / name, target / name
        if not _is_inside(old, source) or not _is_inside(new, target):
            yield f"{name} is not copied: a link leads outside of the workspace"
        elif not os.path.lexists(old):
            yield f"{name} is not copied: it is not in {source}"
        elif not os.path.lexists(new):
            try:
                new.parent.mkdir(parents=True, exist_ok=True)
                if old.is_dir() and not old.is_symlink():
                    shutil.copytree(old, new, symlinks=True)
                else:
                    shutil.copy2(old, new, follow_symlinks=False)
            except OSError as error:
                yield f"{name} is not copied whole: {error.strerror or error}"


def _is_inside(path: Path, top: Path) -> bool:
    """Return whether no link above a path leads out of a folder; the path itself may be one."""
    return is_within(os.path.realpath(path.parent), os.path.realpath(top))


# The variable with the port on which servers of a worktree may listen.
PORT = "PRSM_PORT"
# One for all agents: each idle one would keep an own.
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


class Workspaces(Folders):
    """Tells it by where an agent works; `where` is None where there are no worktrees."""

    def __init__(self, workspace: str, where: Where | None) -> None:
        super().__init__(workspace)
        self.where = self._where = where
        self._within: str | None = None  # from the top of the working tree, once it is needed
        self._made_from: dict[str, str] = {}  # the working tree of a worktree, by its top
        self._ports: dict[str, int] = {}  # of worktrees, by their tops

    def of(self, folder: str) -> str:
        """Return the workspace of whoever works in a folder."""
        top = self.top(folder)
        if top is None:
            return self.main
        if self._within is None:
            workspace = Path(self.main).resolve()
            self._within = os.path.relpath(workspace, repo_identity(workspace).root)
        return os.path.normpath(f"{top}/{self._within}")

    def top(self, folder: str) -> str | None:
        """Return the top of the worktree that a folder is in; None: it is in none."""
        return None if self._where is None else self._where.top(folder)

    def variables(self, folder: str) -> Mapping[str, str]:
        """Return the variables of whoever works in a folder: the port of its worktree."""
        port = self._ports.get(self.top(folder) or "")
        return NO_VARIABLES if port is None else {PORT: str(port)}

    def note_port(self, top: str, port: int) -> None:
        """Know the port that a worktree has for its servers."""
        self._ports[top] = port

    def home(self, path: str) -> str:
        """Return where a path of a worktree is in the session's own files, itself for any other."""
        top = self.top(path)
        if top is None:
            return path
        return os.path.normpath(f"{self._source(top)}/{os.path.relpath(path, top)}")

    def seen_from(self, path: str, folder: str) -> str:
        """Return a path of the session's folder as an agent in another folder has it."""
        top = self.top(folder)
        if top is None or not is_within(path, source := self._source(top)):
            return path
        return os.path.normpath(f"{top}/{os.path.relpath(path, source)}")

    def _source(self, top: str) -> str:
        """Return the folder that a worktree is a copy of; records know of repositories inside."""
        found = None if self._where is None else self._where.find(top)
        if self._where is None or found is None:
            return top
        if top not in self._made_from:
            own = repo_identity(Path(self.main))
            source = str(own.root) if found[0] == own.key else _recorded(self._where, *found)
            if source is None:
                return top
            self._made_from[top] = self.home(source)
        return self._made_from[top]

    def own(self, record: AgentRecord, roster: Roster) -> str | None:
        """Return the id of a worktree that an agent has for itself; None: it has none."""
        parent = roster.parent_of(record)
        if self._where is None or parent is None:
            return None
        found = self._where.find(record.descriptor.cwd)
        is_own = found is not None and found != self._where.find(parent.descriptor.cwd)
        return found[1] if found is not None and is_own else None


def _recorded(where: Where, key: str, tree_id: str) -> str | None:
    from prsm_files.worktrees.records import read  # few are of a repository inside

    tree = read(where, key, tree_id)
    return None if tree is None else tree.parent
