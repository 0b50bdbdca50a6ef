"""One contract for every application that a frontend may be given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.register_assert_rewrite("prsm_testing.app_contract", "prsm_testing.app_contract")

from prsm_testing import AppContract  # noqa: E402 - a failing assert shows its values

from tests.engine.door.scenes import double_scene, local_scene, remote_scene  # noqa: E402

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from prsm_testing import AppScene


@pytest.mark.requirement("D3")
class TestLocalApp(AppContract):
    def open_scene(self, tmp_path: Path) -> AbstractAsyncContextManager[AppScene]:
        return local_scene(tmp_path)


class TestScriptedApp(AppContract):
    def open_scene(self, tmp_path: Path) -> AbstractAsyncContextManager[AppScene]:
        return double_scene(tmp_path)


class TestRemoteApp(AppContract):
    def open_scene(self, tmp_path: Path) -> AbstractAsyncContextManager[AppScene]:
        return remote_scene(tmp_path)
