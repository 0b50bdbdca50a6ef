"""`config show` and `doctor` tell settings that name what is not there."""

import json
import subprocess

import pytest
from prsm_policy.by_text import BUILTINS

from prsm_core.cli.checkup.values import find_mistakes
from prsm_core.config import Settings
from tests.command_policies import POLICY

WRONG = {
    "defaults": {"cwd": "nowhere"},
    "gates": {
        "fine": {"command": "cd . && test -e x || sh -c true"},
        "tests": {"command": "cd web && no-such-runner --all"},
    },
    "mcp_servers": {"docs": {"command": "no-such-server"}, "fine": {"command": "sh"}},
    "permissions": {"tools": {"Reed": "deny", "Read": "allow", "mcp__docs__reed": "deny"}},
    "experts": {
        "sage": {
            "system_prompt": "Know.",
            "tools": ["Grep", "Globb"],
            "mcp_servers": {"own": {"command": "no-such-helper"}},
        }
    },
}
PROBLEMS = [
    ("defaults.cwd", "defaults.cwd: nowhere is not a folder"),
    ("gates.tests.command", "gates.tests runs no-such-runner, which is not on the PATH"),
    ("mcp_servers.docs.command", "MCP server docs runs no-such-server, which cannot be found"),
    ("permissions.tools.Reed", "Reed is no tool; did you mean Read?"),
    (
        "experts.sage.mcp_servers.own.command",
        "MCP server own runs no-such-helper, which cannot be found",
    ),
    ("experts.sage.tools.1", "Globb is no tool; did you mean Glob?"),
]


def test_each_value_that_names_what_is_not_there_is_told_and_no_other(workspace):
    found = find_mistakes(Settings.of(WRONG), str(workspace), POLICY)
    assert [(".".join(map(str, key)), problem) for key, problem in found] == PROBLEMS


def test_what_bash_runs_itself_is_no_missing_program():
    argv = ["bash", "--noprofile", "--norc", "-c", "compgen -b"]
    listed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    jobs = {"bind", "caller", "compgen", "complete", "compopt", "disown", "fc"}
    assert set(listed) - jobs - BUILTINS == set()


@pytest.fixture
def configured(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(json.dumps(WRONG, indent=1))
    return home / "config.yaml"


def test_config_show_tells_them_on_stderr_with_their_lines(prsm, configured):
    shown = prsm("config", "show", "--json")
    assert shown.code == 0
    json.loads(shown.out)
    lines = [line for line in shown.err.splitlines() if line.startswith("prsm: note: ")]
    for line, (_, problem) in zip(lines, PROBLEMS, strict=True):
        assert line.startswith(f"prsm: note: {configured}:")
        assert line.endswith(problem)


def test_doctor_warns_of_them(prsm, configured):
    findings = json.loads(prsm("doctor", "--json").out)
    told = [one["message"] for one in findings if one["check"] == "config"]
    for _, problem in PROBLEMS:
        assert [message for message in told if problem in message]
