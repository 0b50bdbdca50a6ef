"""The keeper of files: git, and the shadow of each folder, for one engine.

Shadows block, so each piece of work has a thread, and one at a time runs, for all folders. What
goes wrong is told, and the run goes on without.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, TypeVar

from prsm_core import ProcessError, PrsmError
from prsm_core.files import repo_identity
from prsm_core.kit import first_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from prsm_core import Clock
    from prsm_core.files import Journal, ProcessLauncher
    from prsm_core.kit import Background
    from prsm_files.session.git_process import GitHelper
    from prsm_files.shadow.acts import Owed
    from prsm_files.shadow.git import Git
    from prsm_files.shadow.opening import Shadows
    from prsm_files.shadow.worktree import Shadow

T = TypeVar("T")

FOLDER_GONE = "folder_gone"  # the code of an error of git that is about its folder
DEADLINE_SECONDS = 300.0  # for one piece of work: git that does not answer is ended
CLOSE_SECONDS = 10.0  # for the thread that runs, once git is gone

_log = logging.getLogger("prsm.engine")


class FilesKeeper:
    """Owns the helper that runs git, the shadows, and the one thread that uses them."""

    def __init__(
        self,
        shadows: Shadows,
        launcher: ProcessLauncher,
        clock: Clock,
        background: Background,
        journal: Journal,
    ) -> None:
        self._whereabouts = shadows
        self._launcher = launcher
        self._clock = clock
        self._background = background
        self._journal = journal
        self._turn = asyncio.Lock()
        self._helper = AsyncExitStack()
        self._git: GitHelper | None = None  # None: not needed yet, or ended
        self._shadows: dict[Path, Shadow] = {}  # by the top of the working tree
        self._told: set[str] = set()
        self._is_closed = False

    async def use(
        self, folder: Path, work: Callable[[Shadow], T], *, seconds: float = DEADLINE_SECONDS
    ) -> T:
        """Do what needs the shadow of a folder, in a thread. Raises OSError, and PrsmError.

        It goes on to its end if the caller is cancelled: a thread cannot be left. git that is
        missing, or takes longer than `seconds`, is a ProcessError.
        """
        return await self._background.finish(self._use(folder, work, seconds))

    async def attempt(self, folder: Path, work: Callable[[Shadow], T], lost: str) -> T | None:
        """Do the same, or return None, and tell once what is `lost` in the folder, and why."""
        try:
            return await self.use(folder, work)
        except (PrsmError, OSError) as error:
            text = f"{lost.format(folder)}: {explain(error)}"
            if not self._is_closed and text not in self._told:
                self._told.add(text)
                self._journal.tell("notice", level="warning", text=text)
            return None

    async def secure(self, folder: Path) -> None:
        """Take in what the snapshots of a folder borrow and git throws away one day."""
        lost = "what git throws away of {} one day, its snapshots lose"
        await self.attempt(folder, lambda shadow: shadow.secure(), lost)

    async def recover(
        self, folder: Path, finish: Callable[[Owed], Awaitable[str]]
    ) -> Sequence[str]:
        """Finish, or take back, a restore that was cut off, and what it owes; return notes."""
        if not self._whereabouts.is_cut_off(folder):
            return ()

        def recover_noting(shadow: Shadow) -> tuple[Sequence[str], Owed | None]:
            owed = recovered(shadow)
            notes = [f"{shadow.folder}: {note}" for note in shadow.notes]
            shadow.notes.clear()
            return notes, owed

        notes, owed = await self.use(folder, recover_noting)
        if owed is not None:
            notes = [*notes, f"{folder}: {await finish(owed)}"]
            await self.use(folder, lambda shadow: shadow.journal.settle())
        return notes

    async def aclose(self) -> None:
        """End git, and wait for what still uses it; nothing is done from now on."""
        self._is_closed = True
        await self._end_git()
        seconds = self._background.parting.most(CLOSE_SECONDS)
        if not await first_of(self._clock, seconds, self._until_idle):
            _log.warning("a thread at work on snapshots does not end: it is left behind")

    async def _until_idle(self) -> None:
        async with self._turn:
            return

    async def _use(self, folder: Path, work: Callable[[Shadow], T], seconds: float) -> T:
        await asyncio.sleep(0)  # what is entered now belongs to the task that `finish` makes
        if not await first_of(self._clock, self._background.parting.rest(), self._turn.acquire):
            raise ProcessError(
                "git is at work on something else, and the run's time is over",
                hint="nothing is lost; the next run looks again",
            )
        try:
            git = await self._open_git()
            loop = asyncio.get_running_loop()
            thread = loop.run_in_executor(None, lambda: work(self._shadow(folder, git)))
            try:
                return await self._within(seconds, thread)
            except ProcessError as error:
                if error.code != FOLDER_GONE:  # else git is well
                    await self._end_git()  # the next one may find a git that works
                raise
            finally:
                for shadow in self._shadows.values():
                    for note in shadow.notes:
                        self._journal.tell("notice", level="info", text=f"{shadow.folder}: {note}")
                    shadow.notes.clear()
        finally:
            self._turn.release()

    async def _within(self, seconds: float, thread: asyncio.Future[T]) -> T:
        """Return what a thread returns; one that takes too long ends since its git does."""
        most = self._background.parting.most
        seconds = most(seconds)
        if await first_of(self._clock, seconds, lambda: asyncio.wait({thread})):
            return thread.result()
        await self._end_git()
        if await first_of(self._clock, most(CLOSE_SECONDS), lambda: asyncio.wait({thread})):
            thread.exception()  # it has ended by what is told now
        self._shadows.clear()  # those that come now wait for its lock, if it is left behind
        raise ProcessError(
            f"git took more than {seconds:.0f} seconds, and was ended",
            hint="look for a disk that does not answer, or a folder that is too large",
        )

    async def _open_git(self) -> Git:
        if self._is_closed:
            raise ProcessError("the engine closes", hint="nothing is lost; start it again")
        if self._git is not None and self._git.has_ended:
            await self._end_git()
        if self._git is None:
            from prsm_files.session.git_process import open_git  # at first need

            git = await self._helper.enter_async_context(open_git(self._launcher, self._clock))
            self._git = git
            self._shadows.clear()  # theirs has ended
        return self._git

    async def _end_git(self) -> None:
        self._git = None
        await self._helper.aclose()

    def _shadow(self, folder: Path, git: Git) -> Shadow:
        top = repo_identity(folder).root
        if top not in self._shadows:
            self._shadows[top] = self._whereabouts.open(git, top)
        return self._shadows[top]


def recovered(shadow: Shadow) -> Owed | None:
    """Finish what was cut off in a folder; return what a restore still owes. Raises PrsmError."""
    from prsm_files.changes.acting import Acting  # few acts are cut off

    shadow.recover()
    Acting(shadow).recover()
    return shadow.journal.owed()


def explain(error: PrsmError | OSError) -> str:
    """Return what an error says, for people: first whether something is used up."""
    from prsm_core.kit.exhaustion import exhaustion_of  # once something fails

    if (used_up := exhaustion_of(error)) is not None:
        return f"{used_up.message}; {used_up.hint}"
    if isinstance(error, PrsmError):
        return f"{error.message}; {error.hint}" if error.hint else error.message
    return str(error)
