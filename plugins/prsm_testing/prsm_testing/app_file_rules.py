"""The rules of an AppHandle about files: held, decided, snapshotted and taken back."""
# ruff: noqa: S101 - these are tests

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import pytest

from prsm_core.errors import ConfigError, PrsmError
from prsm_testing.app_scene import started

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from prsm_testing.app_scene import AppScene


class AppFileRules(ABC):
    """What every AppHandle does with files; a part of `AppContract`."""

    @abstractmethod
    def open_scene(self, tmp_path: Path) -> AbstractAsyncContextManager[AppScene]:
        """Open an application without a run, on a workspace below `tmp_path`."""

    async def test_files_are_held_for_as_long_as_somebody_holds_them(self, tmp_path: Path) -> None:
        """It says once who may write, which is nobody, and then nothing until it is left."""
        async with self.open_scene(tmp_path) as scene:
            await started(scene)
            held = scene.app.hold_files()
            assert list(await anext(held)) == []
            close = getattr(held, "aclose", None)
            assert close is not None
            await close()

    async def test_without_changes_there_is_nothing_to_decide(self, tmp_path: Path) -> None:
        """What is not there is refused by its code; all of nothing is nothing."""
        async with self.open_scene(tmp_path) as scene:
            app = scene.app
            await started(scene)
            assert list(await app.changes()) == []
            for decide in (app.accept, app.reject):
                assert list(await decide()) == []
                with pytest.raises(PrsmError) as unknown:
                    await decide(["nothing"])
                assert unknown.value.code == "unknown_change"
            with pytest.raises(PrsmError) as unknown:
                await app.show_change("nothing")
            assert unknown.value.code == "unknown_change"
            for dry_run in (True, False):
                told = await app.commit_changes(dry_run=dry_run)
                assert (list(told["commits"]), list(told["left"])) == ([], [])
            with pytest.raises(PrsmError) as unknown:
                await app.commit_changes(["nothing"])
            assert unknown.value.code == "unknown_change"
            with pytest.raises(ConfigError):
                await app.commit_changes(by="moon")
            with pytest.raises(ConfigError):
                await app.commit_changes(message=" ")

    async def test_nothing_is_taken_back_below_a_run_that_is_open(self, tmp_path: Path) -> None:
        """But for a turn's changes; what there is nothing of is refused by its code."""
        async with self.open_scene(tmp_path) as scene:
            app = scene.app
            run = await started(scene)
            assert list((await app.undo("turn"))["decided"]) == []
            codes = []
            for what in ("prompt", "everything"):
                with pytest.raises(ConfigError) as refused:
                    await app.undo(what)
                codes.append(refused.value.code)
            assert codes == ["run_open", "unknown_undo"]
            with pytest.raises(ConfigError) as refused:
                await app.undo("act")
            assert refused.value.code in {"nothing_to_undo", "no_snapshots", "run_open"}
            await scene.finish("done")
            await run.result()
            with pytest.raises(ConfigError) as unknown:
                await app.undo()
            assert unknown.value.code == "unknown_prompt"

    async def test_a_snapshot_is_taken_or_it_is_said_that_files_are_not_kept(
        self, tmp_path: Path
    ) -> None:
        """By the code of the error; one that is taken is among the session's."""
        async with self.open_scene(tmp_path) as scene:
            await started(scene)
            taken, code = None, ""
            try:
                taken = await scene.app.take_snapshot("as it is")
            except ConfigError as error:
                code = error.code
            known = {one["id"] for one in await scene.app.snapshots()}
            assert code == "no_snapshots" if taken is None else taken["id"] in known
            with pytest.raises(ConfigError) as refused:
                await scene.app.restore_snapshot("0")
            assert refused.value.code == "run_open"
            with pytest.raises(ConfigError) as refused:
                await scene.app.restore_snapshot("nothing", dry_run=True)
            assert refused.value.code == (code or "unknown_snapshot")
            await scene.finish("done")

    async def test_of_a_file_that_nobody_changed_no_reason_is_told(self, tmp_path: Path) -> None:
        """Neither of it nor of a line; the code says which, and the hint what to do."""
        async with self.open_scene(tmp_path) as scene:
            app = scene.app
            assert list(await app.snapshots()) == []  # of a session that has not begun
            assert list(await app.worktrees()) == []
            await started(scene)
            for line in (None, 1):
                with pytest.raises(PrsmError) as missing:
                    await app.rationale("a.py", line)
                assert missing.value.code == "unchanged_path"
                assert missing.value.hint
