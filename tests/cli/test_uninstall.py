"""`prsm uninstall` shows what is on disk and how to remove it, and removes nothing."""

import json
import sys
from pathlib import Path

import pytest

from prsm_core.cli.installing import managed_by


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with files, in a folder whose name a shell has to be told in quotes."""
    folder = tmp_path / "my home"
    for name in ("data/ledgers", "state/logs"):
        (folder / name).mkdir(parents=True)
    (folder / "config.yaml").write_bytes(b"#" * 1000)
    (folder / "data" / "ledgers" / "ledger.db").write_bytes(bytes(5000))
    (folder / "state" / "logs" / "a.log").write_bytes(bytes(300))
    folder.chmod(0o700)
    monkeypatch.setenv("PRSM_HOME", str(folder))
    return folder


def test_it_tells_folders_with_their_sizes_and_the_lines_that_remove_them(prsm, home):
    done = prsm("uninstall", "--json")
    told = json.loads(done.out)
    assert [(Path(p["path"]), p["bytes"]) for p in told["places"]] == [
        (home, 1000),
        (home / "data", 5000),
        (home / "state", 300),
    ]
    folders, packages = told["lines"]
    assert folders == f"rm -rf -- '{home}'"
    assert packages.startswith(f"{sys.executable} -m pip uninstall ")
    assert " prsm-core" in packages
    assert (home / "data" / "ledgers" / "ledger.db").exists()


def test_for_people_it_says_that_nothing_was_removed(prsm, home):
    done = prsm("uninstall")
    assert done.code == 0
    assert "4.9 KiB" in done.out
    assert "Nothing was removed." in done.out
    assert f"  rm -rf -- '{home}'\n" in done.out
    assert home.exists()


@pytest.mark.parametrize(
    ("file", "words"),
    [("pipx_metadata.json", ("pipx",)), ("uv-receipt.toml", ("uv", "tool")), ("x", None)],
)
def test_what_manages_an_environment_removes_it(tmp_path, file, words):
    (tmp_path / file).touch()
    assert managed_by(tmp_path) == words
