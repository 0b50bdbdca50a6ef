"""Files that a person names to a command: only regular ones, no more than fits, and the cure."""

from __future__ import annotations

import json
import os

import pytest

from prsm_core.cli import run as running
from prsm_core.cli.sessions import importing


@pytest.fixture
def odd(tmp_path):
    """What is no regular file, by name: each waits, or never ends, where it is read."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/dev/zero")
    return {
        "endless": "/dev/zero",
        "a link to it": str(tmp_path / "link"),
        "a pipe": str(tmp_path / "pipe"),
        "a folder": str(tmp_path / "folder"),
    }


@pytest.fixture
def scripted(tmp_path):
    """The options of a run whose agent says a word."""
    path = tmp_path / "scenario.json"
    path.write_text('{"lanes": {"master": {"steps": [{"say": "done"}]}}}')
    return "--provider", "script", "--set", f"providers.script.scenario={path}"


ODD = ("endless", "a link to it", "a pipe", "a folder")


@pytest.mark.parametrize("kind", ODD)
def test_an_import_takes_no_file_that_waits_or_never_ends(prsm, odd, kind):
    done = prsm("sessions", "import", odd[kind])
    assert done.code == 2
    assert f"{odd[kind]}: cannot be read: " in done.err
    assert ("is a directory" in done.err.lower()) or ("it is no regular file" in done.err)
    assert "or - for what another command writes" in done.err


def test_a_policy_is_no_file_that_waits_or_never_ends(prsm, odd, scripted):
    assert prsm("run", "say it", *scripted).code == 0
    for kind in ODD[:3]:
        done = prsm("policy", "replay", "--with", odd[kind])
        assert done.code == 2
        assert "is not a regular file" in done.err


@pytest.mark.parametrize("kind", ODD)
def test_an_image_is_no_file_that_waits_or_never_ends(prsm, odd, scripted, kind):
    done = prsm("run", "look", *scripted, "--image", odd[kind])
    assert done.code == 2
    assert any(why in done.err for why in ("it is no regular file", "is a directory"))


@pytest.mark.parametrize("kind", ODD)
def test_a_scenario_is_no_file_that_waits_or_never_ends(prsm, odd, kind):
    given = f"providers.script.scenario={odd[kind]}"
    done = prsm("run", "it", "--provider", "script", "--set", given)
    assert done.code != 0
    assert "is not a regular file" in done.err


@pytest.mark.parametrize("kind", ODD[1:3])
def test_the_users_own_settings_are_no_file_that_waits_or_never_ends(prsm, odd, kind):
    path = json.loads(prsm("config", "path", "--json").out)["user"]
    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
    os.symlink(odd[kind], path)  # noqa: PTH211
    done = prsm("config", "show")
    assert done.code == 2
    assert "is not a regular file" in done.err
    assert "put a file of text in its place" in done.err


@pytest.mark.parametrize("name", ["pipe", "zero"])
def test_what_a_prompt_names_by_an_at_sign_is_told_where_it_cannot_be_shown(
    prsm_process, workspace, scripted, name
):
    os.mkfifo(workspace / "pipe")
    (workspace / "zero").symlink_to("/dev/zero")
    done = prsm_process("run", f"read @{name}", *scripted, "--json")
    assert f"@{name} is not shown: " in done.out + done.err


def test_an_import_of_too_much_is_refused_with_the_limit(prsm, tmp_path):
    with (tmp_path / "large.json").open("wb") as large:
        large.truncate(importing.MOST_BYTES + 1)
    done = prsm("sessions", "import", str(tmp_path / "large.json"))
    assert done.code == 2
    assert "it is larger than 512 MiB" in done.err


def test_a_task_on_stdin_that_never_ends_is_refused_with_the_cure(prsm_process):
    with open("/dev/zero", "rb") as endless:  # noqa: PTH123
        large = endless.read(running.MOST_BYTES + 1)
    done = prsm_process("run", "-", "--provider", "script", stdin=large)
    assert done.code == 2
    assert "it is larger than 8 MiB" in done.err
    assert "@PATH" in done.err
