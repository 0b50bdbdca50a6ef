"""The contract of whatever keeps files, as a pytest class to subclass.

class TestMyFiles(WorkspaceFilesContract):
    spec = next(iter(prsm_workspace_files()))
"""

from __future__ import annotations

import sys
from abc import ABC
from contextlib import asynccontextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from prsm_core.app import open_app
from prsm_core.builtin import BUILTINS
from prsm_core.config import resolve_paths
from prsm_core.config.schema import Settings
from prsm_core.errors import ConfigError
from prsm_core.hookspecs import hookimpl
from prsm_core.interfaces.frontend import FrontendSpec, RunOptions
from prsm_core.plugins import PluginManager
from prsm_testing.bound import bounded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from prsm_core.engine.door.local import LocalApp
    from prsm_core.interfaces.files import WorkspaceFilesSpec
    from prsm_core.interfaces.runs import RunResult

_MODULE = "prsm_files_under_contract"
_FRONTEND = FrontendSpec(name="none", summary="", interactive=False, priority=0, factory="")
_BEFORE, _AFTER = b"one\r\ntwo\xff\n", "one\r\nzwei\n"


@bounded
class WorkspaceFilesContract(ABC):
    """What all that keeps files does; each test's docstring is the rule."""

    bound_s: ClassVar[float] = 60.0
    spec: ClassVar[WorkspaceFilesSpec]  # the record that the plugin registers
    keeps: ClassVar[bool] = True  # False: it keeps nothing, and says so

    @asynccontextmanager
    async def _run(self, folder: Path, **claim: Any) -> AsyncIterator[tuple[LocalApp, RunResult]]:
        """Run an agent that writes `file` in the folder `work`, and claims something."""
        steps: list[Mapping[str, Any]] = [
            {"edit": {"path": "file", "content": _AFTER}},
            {"call": {"tool": "task_complete", "arguments": {"summary": "done", **claim}}},
        ]
        scenario = {"lanes": {"master": {"marker": "", "steps": steps}}}
        settings = {
            "engine": {"master": "solo"},
            "sandbox": "off",
            "providers": {"script": {"scenario": scenario}},
        }
        work, paths = folder / "work", {"PRSM_HOME": str(folder / "home")}
        work.mkdir()
        (work / "file").write_bytes(_BEFORE)
        (work / "other").write_text("other\n")
        async with open_app(
            RunOptions(workspace=str(work), provider="script", on_ask="allow"),
            Settings.of(settings),
            self._plugins(),
            paths=resolve_paths(work, paths),
            frontend=_FRONTEND,
        ) as app:
            run = await app.runs.start("edit it")
            result = await run.result()
            assert result.status == "completed"
            assert _files(work) == {"file": _AFTER.encode(), "other": b"other\n"}
            yield app, result

    def _plugins(self) -> PluginManager:
        @hookimpl
        def prsm_workspace_files() -> list[WorkspaceFilesSpec]:
            return [self.spec]

        module = sys.modules[_MODULE] = ModuleType(_MODULE)
        vars(module)["prsm_workspace_files"] = prsm_workspace_files
        others = (("demo", "prsm_demo.plugin"), ("policy", "prsm_policy.plugin"))
        found = [*BUILTINS, *others, ("files", _MODULE)]
        return PluginManager.load(environ={}, builtins=found, entry_points=[])

    async def test_a_change_is_of_its_agent_and_is_taken_back_alone(self, tmp_path: Path) -> None:
        """Then the file is as it was, byte for byte; what a person writes meanwhile stays."""
        async with self._run(tmp_path) as (app, _):
            found = await app.changes.list()
            assert [(one.path, one.name) for one in found] == [("file", "master")][: self.keeps]
            if self.keeps:
                (tmp_path / "work" / "other").write_text("a person's\n")
                [made] = await app.changes.reject()
                assert (made.change, made.state) == (found[0].change, "rejected")
                kept = {"file": _BEFORE, "other": b"a person's\n"}
                assert _files(tmp_path / "work") == kept
            with pytest.raises(ConfigError) as refused:
                await app.changes.show("nothing")
        assert refused.value.code == ("unknown_change" if self.keeps else "no_files")

    async def test_a_snapshot_brings_all_files_back(self, tmp_path: Path) -> None:
        """Those that were changed, removed and added since."""
        async with self._run(tmp_path) as (app, _):
            work = tmp_path / "work"
            before = _files(work)
            if self.keeps:
                taken = await app.snapshots.take("before")
                assert taken.id in {one.id for one in await app.snapshots.list()}
                (work / "file").write_bytes(_BEFORE)
                (work / "other").unlink()
                (work / "new").write_text("new")
                await app.snapshots.restore(taken.id)
                assert _files(work) == before
            with pytest.raises(ConfigError) as refused:
                await app.snapshots.restore("nothing")
        assert refused.value.code == ("unknown_snapshot" if self.keeps else "no_files")

    async def test_a_claim_that_is_not_true_is_not_checked(self, tmp_path: Path) -> None:
        """A file that an agent names, and that is not there, leaves its result a claim."""
        async with self._run(tmp_path, artifacts=["nowhere.txt"]) as (_, result):
            assert result.evidence == "claimed"


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
