"""Commands that act for a person are refused to what an agent has started, however it starts."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from prsm_core.cli.callers import AGENTS, guard, is_guarded
from prsm_core.cli.group import COMMANDS, cli
from prsm_core.engine.control.session_lock import SessionLock
from prsm_core.engine.processes.table import ProcessIdentity, format_mark
from tests.cli.conftest import DEADLINE, command

LOOKING = {
    *("changes", "changes diff", "changes list", "changes show", "changes why"),
    *("changes worktrees", "config path", "config schema", "config show", "demo", "diff", "doctor"),
    *("events", "export", "history", "models discover", "models list", "models rank"),
    *("models recommend", "plugins", "plugins new", "policy check", "policy list", "policy replay"),
    *("policy suggest", "providers", "replay", "sessions export", "sessions list"),
    *("sessions show", "sim", "snapshot export", "snapshot list", "snapshot show", "tree"),
    "uninstall",
}
# They do nothing but ask the engine of the session, which asks the kernel itself.
ASKING_THE_ENGINE = {"answer", "attach", "kill", "model", "prompt"}
# By what they are given; the second is what agents may do.
BY_OPTIONS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "run": (["run", "x", "--trust"], {"trust": False}),
    "undo": (["undo", "--yes"], {"lists": True}),
    "changes commit": (["changes", "commit", "--yes"], {"dry_run": True}),
}
FOR_PEOPLE = {
    "accept": ["accept", "--all"],
    "changes accept": ["changes", "accept", "--all"],
    "changes reject": ["changes", "reject", "--all", "--yes"],
    "fork": ["fork"],
    "install": ["install", "codex"],
    "policy add": ["policy", "add", "allow", "rm", "-rf", "x"],
    "policy remove": ["policy", "remove", "deny", "rm"],
    "reject": ["reject", "--all", "--yes"],
    "resume": ["resume"],
    "sessions compact": ["sessions", "compact"],
    "sessions delete": ["sessions", "delete", "s1", "--yes"],
    "sessions fork": ["sessions", "fork", "s1"],
    "sessions import": ["sessions", "import", "file.jsonl"],
    "sessions rename": ["sessions", "rename", "s1", "new"],
    "snapshot create": ["snapshot", "create"],
    "snapshot delete": ["snapshot", "delete", "1", "--yes"],
    "snapshot import": ["snapshot", "import", "."],
    "snapshot pack": ["snapshot", "pack"],
    "snapshot restore": ["snapshot", "restore", "1", "--yes"],
    "trust": ["trust", "--yes"],
}
# Commands of packages that need not be installed; prsm-testing is, for the tests run on it.
MAY_BE_ABSENT = {name for name, (place, _) in COMMANDS.items() if place == "prsm-mcp"}
ADD = ("policy", "add", "allow", "rm", "-rf", "x")


def commands(group, path=()):
    """Yield each command of a group that does something, by its words."""
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        if not isinstance(found, click.Group) or found.invoke_without_command:
            yield " ".join((*path, name)), found
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))


@pytest.fixture
def engine(tmp_path):
    """This process owns a session, so that what it starts is an agent's."""
    (tmp_path / "home").mkdir()
    with SessionLock.take(tmp_path / "home" / "state", "s1", since=0.0) as lock:
        yield lock


@pytest.mark.requirement("D9")
def test_each_command_is_for_people_unless_it_says_otherwise(monkeypatch):
    found = {name: each for name, each in commands(cli) if name not in MAY_BE_ABSENT}
    assert all(map(is_guarded, found.values()))
    exempt = {name: getattr(each.callback, AGENTS, None) for name, each in found.items()}
    assert {name for name, decides in exempt.items() if decides is None} == {*FOR_PEOPLE}
    rest = {name: decides for name, decides in exempt.items() if decides is not None}
    assert {*rest} == LOOKING | ASKING_THE_ENGINE | {*BY_OPTIONS}
    monkeypatch.delenv("PRSM_PLUGINS")  # it leaves plugins out, and with them checks
    with click.Context(cli):
        assert not any(rest[name]({}) for name in LOOKING | ASKING_THE_ENGINE)
        assert not any(rest[name](harmless) for name, (_, harmless) in BY_OPTIONS.items())


def test_a_command_that_says_nothing_is_for_people():
    @click.command()
    def added() -> None:
        raise AssertionError("an agent got here")

    found = dict(commands(guard(click.Group("outer", commands={"added": added}))))["added"]
    assert is_guarded(found)
    assert getattr(found.callback, AGENTS, None) is None


@pytest.mark.requirement("D9")
def test_below_an_engine_nothing_is_decided_for_a_person(engine, prsm_process, tmp_path):
    calls = FOR_PEOPLE | {name: words for name, (words, _) in BY_OPTIONS.items()}
    before = sorted(path for path in tmp_path.rglob("*"))
    for words in calls.values():
        done = prsm_process(*words)
        assert (words, done.code, done.out) == (words, 1, "")
        assert f"the agents of process {os.getpid()} started it" in done.err
    assert sorted(path for path in tmp_path.rglob("*")) == before
    assert prsm_process("policy", "list", "--json").code == 0


def test_a_screen_of_a_person_does_not_open_below_an_engine(engine, prsm_process):
    for words in (["--ui", "tui"], ["--mode", "extension"]):
        done = prsm_process(*words)
        assert (done.code, "is for a person" in done.err) == (1, True)
    assert prsm_process().code == 0  # the help


WIDENING = {
    "run": ["--trust", "--session=s", "--continue", "--on-ask=allow", "--mode=accept_edits"],
}


@pytest.mark.requirement("D9")
def test_an_agent_begins_runs_only_as_the_files_have_them(engine, prsm_process):
    for name, options in WIDENING.items():
        for option in options:
            done = prsm_process(name, *["x"] * (name == "run"), option)
            assert (option, done.code, "is for a person" in done.err) == (option, 1, True)


@pytest.mark.requirement("D9")
def test_an_engine_of_another_home_is_no_matter(engine, start_prsm, tmp_path):
    environ = {**os.environ, "PRSM_HOME": str(tmp_path / "other")}
    process = start_prsm(*ADD, env=environ)
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert "rm -rf x" in (tmp_path / "other" / "policy.yaml").read_text()


@pytest.mark.requirement("D9")
@pytest.mark.parametrize("folder", ["data", "state", "config"])
def test_the_mark_counts_for_each_folder_of_its_engine_also_after_its_end(
    start_prsm, tmp_path, folder
):
    """Who moves one of the folders by its variable gets at the others all the same."""
    environ = {name: text for name, text in os.environ.items() if name != "PRSM_HOME"}
    for kind in ("data", "state", "config"):
        environ[f"XDG_{kind.upper()}_HOME"] = str(tmp_path / kind)
    engine = tmp_path / "of the engine"
    places = [engine / kind for kind in ("data", "state", "config") if kind != folder]
    places.append(tmp_path / folder / "prsm")
    ended = ProcessIdentity(pid=999_999, start_time=1, boot_id="")
    for marked, code in ((places, 1), (places[:-1], 0)):
        mark = {"PRSM_ENGINE": format_mark(ended, marked)}
        process = start_prsm(*ADD, env={**environ, **mark})
        _, err = process.communicate(timeout=DEADLINE)
        assert (process.returncode, b"environment of an engine's agents" in err) == (code, code)


@pytest.mark.requirement("D9")
@pytest.mark.parametrize("folder", [".", "inner"])
def test_no_other_home_opens_the_workspace_of_an_engine(start_prsm, prsm, workspace, folder):
    place = workspace / folder
    place.mkdir(exist_ok=True)
    rule = ("deny", "rm", "--project", "-C", str(place))
    assert prsm("policy", "add", *rule).code == 0
    before = (place / ".prism" / "policy.yaml").read_bytes()
    ended = ProcessIdentity(pid=999_999, start_time=1, boot_id="")
    for marked, code in ((workspace, 1), (workspace / "elsewhere", 0)):
        mark = {"PRSM_ENGINE": format_mark(ended, [marked / ".prism"])}
        process = start_prsm("policy", "remove", *rule, env={**os.environ, **mark})
        _, err = process.communicate(timeout=DEADLINE)
        assert (process.returncode, b"environment of an engine's agents" in err) == (code, code)
        assert ((place / ".prism" / "policy.yaml").read_bytes() == before) == bool(code)


@pytest.mark.requirement("D9")
def test_who_hides_its_ancestors_is_not_believed(engine, tmp_path):
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    hidden = ("unshare", "-Urpf", "--mount-proc")
    if subprocess.run([*hidden, "true"], capture_output=True, check=False).returncode:
        pytest.skip("unshare makes no namespaces here")
    done = subprocess.run(
        [*hidden, *command(*ADD)], capture_output=True, timeout=DEADLINE, check=False
    )
    assert (done.returncode, b"cannot be seen" in done.stderr) == (1, True)
    assert not (tmp_path / "home" / "policy.yaml").exists()


WAYS = {
    "plainly": "{}",
    "without its environment": "env -u PRSM_ENGINE {}",
    "by a shell of its own session": "setsid -w sh -c '{}'",
    "as an orphan": "(setsid sh -c '{}; echo > pipe' &); cat pipe",
}


@pytest.mark.requirement("D9")
def test_an_agent_in_bypass_mode_writes_no_rule_for_the_next_run(
    monkeypatch, start_prsm, prsm, tmp_path
):
    """Its shell has no PRSM_HOME: both go by the folders of the user."""
    monkeypatch.delenv("PRSM_HOME")
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    try_each_way_in_bypass(start_prsm, ADD)
    assert list((tmp_path / "home").rglob("policy.yaml")) == []
    assert prsm(*ADD).code == 0  # the person's own


@pytest.mark.requirement("D9")
def test_an_agent_in_bypass_mode_removes_no_rule_of_its_workspace_by_another_home(
    start_prsm, prsm, tmp_path, workspace
):
    rule = ("deny", "rm", "--project")
    assert prsm("policy", "add", *rule).code == 0
    before = (workspace / ".prism" / "policy.yaml").read_bytes()
    by = f"env PRSM_HOME={tmp_path / 'other'} "
    try_each_way_in_bypass(start_prsm, ("policy", "remove", *rule), by=by)
    assert (workspace / ".prism" / "policy.yaml").read_bytes() == before


def try_each_way_in_bypass(start_prsm, words, *, by=""):
    """Have a child call a command in a script, of whose text nothing is known."""
    os.mkfifo("pipe")
    script = Path("ask.sh")
    script.write_text(f"#!/bin/sh\nexec {by}{sys.executable} -m prsm_core {' '.join(words)}\n")
    script.chmod(0o755)
    call = "./ask.sh >> said 2>&1"
    steps = [{"shell": way.replace("{}", call)} for way in WAYS.values()]
    path = Path.cwd().parent / "scenario.json"
    spawn = {"tool": "spawn_child", "arguments": {"name": "worker", "prompt": "x", "wait": True}}
    lanes = {"master": [{"call": spawn}, {"say": "tried"}], "worker": [*steps, {"say": "tried"}]}
    path.write_text(json.dumps({"lanes": {name: {"steps": s} for name, s in lanes.items()}}))
    by_script = ("--provider", "script", "--set", f"providers.script.scenario={path}")
    process = start_prsm("run", "x", "--mode", "bypass", "--json", *by_script)
    out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, err
    events = [json.loads(line) for line in out.splitlines()]
    assert not [event for event in events if event["type"] == "permission_requested"]
    assert Path("said").read_text().count("is not taken for a person's") == len(WAYS)
