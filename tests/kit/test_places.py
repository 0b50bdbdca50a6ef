"""Where PRSM's state lies is one answer, for the core and for plugins."""

from __future__ import annotations

from pathlib import Path

import pytest

from prsm_core.config.paths import resolve_paths
from prsm_core.errors import ConfigError
from prsm_core.kit import state_folder


@pytest.mark.parametrize("home", ["", "~/prsm", "below"])
def test_a_plugin_is_told_the_folder_that_the_core_resolves(tmp_path, monkeypatch, home):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    told = {"PRSM_HOME": home} if home else {}
    monkeypatch.delenv("PRSM_HOME", raising=False)
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    assert state_folder() == resolve_paths(tmp_path, told).state
    assert not home or state_folder() == tmp_path / Path(home).name.replace("~", "") / "state"


def test_a_home_that_is_no_folder_is_refused_with_the_cure(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PRSM_HOME", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="which is not a folder"):
        state_folder()
