"""`prsm policy check` asks the permission checks of plugins as a run does."""

from __future__ import annotations

import json

import pytest

from tests.site_folder import Site

CODE = """
from prsm_core import Ask, Deny


async def watch(request, context):
    if request.command is not None and "push" in request.command:
        return Deny(f"no pushing in {context.mode}")
    if request.tool == "Edit":
        return Ask("edits are looked at")
    if request.tool == "spawn_child" and "many" in request.arguments.get("prompt", ""):
        return Deny("too many")


@hookimpl
def prsm_permission_checks():
    yield PermissionCheckSpec(
        name="watcher", summary="", priority=1, check=watch, in_bypass=True, orchestration=True
    )
"""


@pytest.fixture
def check(prsm_process, tmp_path, monkeypatch):
    """Run `prsm policy check --json` where a plugin has a check."""
    site = Site(tmp_path / "site")
    site.folder.mkdir()
    site.add("watch", CODE)
    monkeypatch.setenv("PYTHONPATH", str(site.folder))
    monkeypatch.setenv("PRSM_PLUGINS", "watch")

    def run(*args, text=""):
        return prsm_process("policy", "check", "--json", *args, stdin=text.encode())

    return run


@pytest.mark.parametrize("mode", ["default", "bypass"])
def test_what_a_check_denies_is_told_with_its_name(check, mode):
    done = check("--mode", mode, "git push origin")
    assert done.code == 1, done.err
    told = json.loads(done.out)
    assert (told["verdict"], told["check"], told["rule"]) == ("deny", "watcher", None)
    assert told["reason"] == f"no pushing in {mode}"


def test_what_no_check_minds_is_told_as_ever(check):
    done = check("ls -la")
    assert json.loads(done.out) == {
        "id": None,
        "verdict": "allow",
        "reason": "it is known to be safe",
        "rule": None,
    }


@pytest.mark.parametrize(
    ("tool", "arguments", "verdict", "by"),
    [
        ("spawn_child", {"prompt": "be many"}, "deny", "watcher"),
        ("spawn_child", {"prompt": "be one"}, "allow", None),
        ("Edit", {"file_path": "x.py"}, "ask", "watcher"),
        ("Edit", {"file_path": "/etc/passwd"}, "ask", None),
        ("run_bash", {"command": "git push"}, "deny", "watcher"),
        ("run_bash", {"command": "rm -rf x"}, "ask", None),
        ("mcp__x__y", {}, "ask", None),
    ],
)
def test_calls_of_tools_are_judged_too(check, tool, arguments, verdict, by):
    done = check("--tool", tool, "--arguments", json.dumps(arguments))
    told = json.loads(done.out)
    assert (told["verdict"], told.get("check")) == (verdict, by)
    by_row = check(text=json.dumps({"id": 1, "tool": tool, "arguments": arguments}))
    assert json.loads(by_row.out) == {**told, "id": 1}


@pytest.mark.parametrize(
    "args", [["ls", "--tool", "Edit"], ["--tool", "Edit", "--arguments", "[]"]]
)
def test_a_tool_and_a_command_or_arguments_that_are_none_are_wrong_usage(check, args):
    done = check(*args)
    assert (done.code, done.out) == (2, "")


def test_without_a_check_that_is_required_nothing_is_judged(check, tmp_path):
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "config.yaml").write_text("permissions: {required: [missing]}\n")
    done = check("ls")
    assert (done.code, done.out) == (2, "")
    assert "permissions.required" in done.err
