"""The files of one engine's session: all that keeps them, put together."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from prsm_core.files import WorkspaceFiles
from prsm_files.session.evidence.evidence import ClaimProof, Sources
from prsm_files.session.evidence.gates import GateRunner
from prsm_files.session.folders import Workspaces
from prsm_files.session.keeper import FilesKeeper
from prsm_files.session.late import LateTrees, LateWatch
from prsm_files.session.prompts import PromptSnapshots
from prsm_files.shadow.opening import Shadows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from prsm_core.engine.workspace_files import OpenFiles
    from prsm_core.files import AgentRecord, FilesContext, Paths
    from prsm_files.session.changes import ChangeWatch
    from prsm_files.session.decisions import Deciding
    from prsm_files.session.evidence.witness import Witness
    from prsm_files.session.trees import TreeKeeper
    from prsm_files.session.undoing import Undoing
    from prsm_files.shadow.worktree import Shadow


def keep_files(paths: Paths) -> OpenFiles:
    """Return what opens the files of an engine, whose shadows lie where PRSM keeps its state."""
    return opens(Shadows(state=paths.state, data=paths.data, trees=paths.trees))


def opens(shadows: Shadows | None) -> OpenFiles:
    """Return what opens the files of an engine; None: nothing is recorded, claims are weighed."""
    return partial(SessionFiles, shadows=shadows)


class SessionFiles(WorkspaceFiles):
    """Owns what keeps the files of a session.

    Without `shadows` no snapshots are taken, no changes found and no worktrees made.
    """

    folders: Workspaces
    trees: LateTrees
    watch: LateWatch | None

    def __init__(self, context: FilesContext, shadows: Shadows | None) -> None:
        self.context = context
        trees = None if shadows is None else shadows.trees
        self.folders = Workspaces(context.workspace, trees)
        self.keeper = self._make_keeper(shadows)
        self._snapshots = self._make_snapshots()
        self.trees = LateTrees(
            self.folders,
            context.roster,
            context.settings.workspace.worktrees,
            self._make_tree_keeper,
        )
        keeper = self.keeper
        self.watch = None if keeper is None else LateWatch(lambda: self._make_watch(keeper))
        self._sources = self._make_sources()

    @property
    def decisions(self) -> Deciding:
        """What decides about changes."""
        from prsm_files.session.decisions import Deciding  # once a person decides

        context = self.context
        return Deciding(self.watch, context.store, context.session, context.workspace)

    def undoing(self, is_running: Callable[[], bool], locks: Path | None) -> Undoing:
        """Return what takes back; other engines are found by their `locks`."""
        from prsm_files.session.undoing import Undoing  # once a person undoes something

        return Undoing(self.context, self.keeper, self.watch, is_running, locks)

    def before(
        self, said: str, folder: str, agent: str | None
    ) -> AbstractAsyncContextManager[None]:
        """Have a snapshot taken of the files as they are before this is said, if any is."""
        if self._snapshots is None:
            return nullcontext()
        return self._snapshots.before(said, folder, agent)

    def proof(self, record: AgentRecord) -> ClaimProof:
        """Return what weighs what an agent says it has done."""
        return ClaimProof(record, self._sources)

    async def recover(self, folder: Path) -> Sequence[str]:
        """Finish what was cut off: a restore of the files, worktrees; return what was done.

        Raises PrsmError where it can neither be finished nor taken back: nobody is to work on files
        that are neither old nor new.
        """
        if self.keeper is None:
            return ()

        async def finish(owed: Mapping[str, Any]) -> str:
            from prsm_files.session.going_back import finish_owed  # few undos are cut off

            of = self.context
            return await finish_owed(of.store, owed, ids=of.ids, now=of.clock.time())

        return [*await self.keeper.recover(folder, finish), *await self.trees.recover(folder)]

    async def settle(self) -> None:
        """Wait for snapshots that are being taken: a run is about to end."""
        if self._snapshots is not None:
            await self._snapshots.settle()

    async def aclose(self) -> None:
        """End git."""
        if self.keeper is not None:
            await self.keeper.aclose()

    def _make_keeper(self, shadows: Shadows | None) -> FilesKeeper | None:
        if shadows is None:
            return None
        of = self.context
        return FilesKeeper(shadows, of.launcher, of.clock, of.background, of.journal)

    def _make_snapshots(self) -> PromptSnapshots | None:
        of, settings = self.context, self.context.settings.workspace
        if self.keeper is None or settings.snapshots == "off":
            return None
        return PromptSnapshots(
            self.keeper,
            of.quiet,
            of.journal,
            of.feed,
            of.store,
            of.background,
            of.clock,
            settings,
        )

    def _make_tree_keeper(self) -> TreeKeeper:
        # Once there is one.
        from prsm_files.session.furnishing import Furnishing
        from prsm_files.session.trees import TreeKeeper, TreeParts

        of = self.context
        furnishing = Furnishing(
            settings=of.settings.workspace,
            trusted=of.trusted,
            launcher=of.launcher,
            clock=of.clock,
            env=of.env,
            sandbox=of.sandbox(),
        )
        return TreeKeeper(
            TreeParts(
                keeper=self.keeper,
                where=self.folders.where,
                workspaces=self.folders,
                roster=of.roster,
                quiet=of.quiet,
                look_at=self._look_at,
                journal=of.journal,
                store=of.store,
                clock=of.clock,
                background=of.background,
                furnishing=furnishing,
                task_of=of.task_of,
            )
        )

    def _make_watch(self, keeper: FilesKeeper) -> ChangeWatch:
        from prsm_files.session.changes import ChangeWatch  # once a call may write

        of = self.context
        return ChangeWatch(
            keeper,
            of.journal,
            of.store,
            of.roster,
            leases=of.leases,
            turn_of=of.turn_of,
            hold=of.quiet.hold,
            is_apart=lambda folder: self.folders.top(folder) is not None,
            clock=of.clock,
            background=of.background,
            session=of.session,
            workspace=of.workspace,
        )

    def _look_at(self, shadow: Shadow, files: tuple[str, ...]) -> None:
        if self.watch is not None:
            self.watch.look_at(shadow, files)

    def _make_sources(self) -> Sources:
        of = self.context
        return Sources(
            roster=of.roster,
            conversations=of.conversations,
            gates=self._make_gates(),
            launcher=of.launcher,
            journal=of.journal,
            clock=of.clock,
            refusals=of.settings.engine.gate_refusals,
            main=of.workspace,
            workspace=self.folders.of,
            in_worktree=self.trees.has_changed,
            commands=of.commands,
            newest=lambda: of.feed.newest,
            witness=self._late_witness(),
        )

    def _make_gates(self) -> GateRunner:
        of = self.context
        return GateRunner(
            of.settings.gates,
            workspace=of.workspace,
            launcher=of.launcher,
            clock=of.clock,
            env=of.env,
            variables_of=self.folders.variables,
            sandbox=of.sandbox,
        )

    def _late_witness(self) -> Callable[[], Witness] | None:
        """Return what knows the files by what was found, once asked; None: nobody watches them."""
        watch, keeper, of = self.watch, self.keeper, self.context
        if watch is None or keeper is None:
            return None

        def make() -> Witness:
            from prsm_files.session.evidence.witness import Witness  # at the first claim

            return Witness(
                watch,
                keeper,
                of.store,
                of.roster,
                session=of.session,
                workspace=of.workspace,
            )

        return make
