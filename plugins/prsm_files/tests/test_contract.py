"""The keeper of files passes the contract of its kind; so does one that keeps nothing."""

from __future__ import annotations

import shutil

import pytest
from prsm_files.plugin import prsm_workspace_files
from prsm_testing import WorkspaceFilesContract

from prsm_core.files import WorkspaceFiles, WorkspaceFilesSpec


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
class TestGitFiles(WorkspaceFilesContract):
    spec = next(iter(prsm_workspace_files()))


class TestNoFiles(WorkspaceFilesContract):
    spec = WorkspaceFilesSpec(name="none", summary="", factory=lambda _: WorkspaceFiles)
    keeps = False
