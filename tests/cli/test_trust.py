"""A run without a person: what `.prism` may do before it is trusted, after, and with --trust."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from prsm_core.config import resolve_paths
from prsm_core.config.paths import written_path
from prsm_core.permissions.kept_names import KeptNames

pytestmark = pytest.mark.usefixtures("puppets")


@pytest.fixture
def write(workspace):
    """Write a file of `.prism`."""

    def write(name, text):
        path = workspace / ".prism" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write


def outcomes(prsm, prsm_process, file, *task):
    """Return what four runs print: untrusted, with --trust, trusted, and after one more byte."""
    done = [prsm_process("run", *task), prsm_process("run", "--trust", *task)]
    assert prsm("trust", "--yes").code == 0
    done.append(prsm_process("run", *task))
    file.write_text(file.read_text() + "\n")
    done.append(prsm_process("run", *task))
    for run, is_told in zip(done, (True, False, False, True), strict=True):
        assert ("not trusted" in run.err) is is_told
    return [run.out.strip() for run in done]


def test_rules_of_an_untrusted_workspace_allow_nothing(prsm, prsm_process, write):
    file = write("policy.yaml", "allow: [frob]\n")
    given = outcomes(prsm, prsm_process, file, "send run frob it")
    assert given == ["denied", "allowed", "allowed", "denied"]


def test_rules_of_an_untrusted_workspace_to_deny_hold_even_where_all_is_allowed(
    prsm, prsm_process, write
):
    file = write("policy.yaml", "deny: [frob]\n")
    denied = prsm_process("run", "--on-ask", "allow", "send run frob it")
    file.write_text("ask: [ls]\n")
    asked = prsm_process("run", "send run ls")
    file.unlink()
    free = prsm_process("run", "send run ls")
    assert [run.out for run in (denied, asked, free)] == ["denied\n", "denied\n", "allowed\n"]


def test_a_gate_of_an_untrusted_workspace_does_not_run(
    prsm, prsm_process, write, workspace, tmp_path
):
    file = write("config.yaml", "gates: {mark: {command: 'echo run >> gate'}}\n")
    mark = workspace / "gate"
    scenario = tmp_path / "scenario.json"
    edits = [{"edit": {"path": "made", "content": text}} for text in ("one\n", "two\n")]
    spawn = {"tool": "spawn_child", "arguments": {"prompt": "make it", "name": "w1", "wait": True}}
    lanes = {"master": [{"call": spawn}, {"say": "done"}], "w1": [*edits, {"say": "made"}]}
    steps = {name: {"steps": given} for name, given in lanes.items()}
    scenario.write_text(json.dumps({"lanes": steps}))
    script = ("--provider", "script", "--set", f"providers.script.scenario={scenario}")
    done = outcomes(prsm, prsm_process, file, "go", *script, "--mode", "accept_edits")
    assert done == ["done"] * 4
    assert (workspace / "made").read_text() == "two\n"
    assert mark.read_text() == "run\nrun\n", "with --trust and once it was trusted"


def test_a_provider_command_of_an_untrusted_workspace_is_not_run(prsm, prsm_process, write):
    text = "providers: {puppet: {command: [./evil], base_url: 'http://evil.example'}}\n"
    file = write("config.yaml", text)
    shown = []
    for change in (None, lambda: prsm("trust", "--yes"), lambda: file.write_text(text + "#")):
        if change is not None:
            change()
        done = prsm_process("config", "show")
        assert ("is not trusted" in done.err) is ("evil" not in done.out)
        shown.append("evil" in done.out)
    assert shown == [False, True, False]


CONTENT = {
    "config.yaml": "gates: {tests: {command: '{0}-config'}}\n",
    "models.yaml": "models: {big: {provider: script, model_id: '{0}-models'}}\n",
    "policy.yaml": "allow: ['{0}-policy']\n",
    "agents/expert.md": "---\ndescription: d\n---\n{0}-agents\n",
}


@pytest.mark.requirement("E24")
@pytest.mark.parametrize("command", [("config", "show"), ("policy", "list")])
def test_the_bytes_that_are_used_are_those_that_are_trusted(prsm, write, tmp_path, command):
    """A file that is changed between two readings must not be used without being looked at."""
    (tmp_path / "evil").mkdir()
    for name, text in CONTENT.items():
        write(name, text.replace("{0}", "good"))
        (tmp_path / "evil" / name.replace("/", "-")).write_text(text.replace("{0}", "evil"))
    assert prsm("trust", "--yes").code == 0
    run = [sys.executable, str(Path(__file__).with_name("swapper.py")), str(tmp_path / "evil")]
    done = subprocess.run([*run, *command], capture_output=True, text=True, timeout=60, check=False)
    *shown, opened = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert "good" in done.stdout
    assert not [line for line in shown if "evil" in line]
    assert json.loads(opened) == dict.fromkeys(CONTENT, 1)


EVERYTHING = """\
defaults: {mode: bypass}
sandbox: {mode: 'off', writable: [/elsewhere]}
gates: {tests: {command: run-the-gate}}
mcp_servers:
  local:
    command: start-server
    args: [--flag]
    env: {NODE_OPTIONS: --require=./x, API_TOKEN: hush-hush-hush}
  remote: {url: 'http://mcp.example/x', headers: {X-Mine: yes-header}}
providers:
  codex:
    command: [./own-codex]
    base_url: 'http://base.example'
    env: {PATHS: provider-env}
    own: plugins-own
permissions:
  allow: [frob it]
  deny: [zap it]
  ask: [grob it]
  trusted: [yes-man]
  tools: {WebFetch: allow}
experts: {inline: {system_prompt: Obey the inline one.}}
plugins: {disabled: [guard-plugin]}
"""


@pytest.fixture
def everything(write):
    write("config.yaml", EVERYTHING)
    write("policy.yaml", "allow: [allowed-by-policy]\ndeny: [denied-by-policy]\n")
    write("models.yaml", "models: {big: {provider: script, model_id: the-model}}\n")
    write("agents/expert.md", "---\ndescription: d\n---\nObey the file.\n")
    write("script.sh", "echo run")


@pytest.mark.usefixtures("everything")
def test_whatever_has_effect_is_shown_before_it_is_trusted(prsm):
    done = prsm("trust")
    assert done.code == 2
    assert "nobody can be asked here: `prsm trust --yes` trusts what is shown" in done.err
    assert "trusted as" not in done.out
    assert prsm("doctor", "--json").out.count("is not trusted") == 1
    told = [
        'defaults.mode = "bypass"', 'sandbox.mode = "off"', "/elsewhere", "run-the-gate",
        "start-server", "--flag", "--require=./x", "http://mcp.example/x", "yes-header",
        "./own-codex", "http://base.example", "provider-env", "plugins-own", "frob it", "zap it",
        "grob it", "yes-man", 'permissions.tools.WebFetch = "allow"', "Obey the inline one.",
        "guard-plugin", 'rule allow ["allowed-by-policy"]', 'rule deny ["denied-by-policy"]',
        "the-model", "Obey the file.", "script.sh (file, 8 bytes", "project checks",
    ]  # fmt: skip
    assert [text for text in told if text not in done.out] == []
    assert "hush" not in done.out
    assert "mcp_servers.local.env.API_TOKEN = (hidden, sha256 " in done.out


@pytest.mark.usefixtures("everything")
def test_what_changed_since_it_was_trusted_is_marked(prsm, write):
    first = prsm("trust", "--yes")
    assert not [line for line in first.out.splitlines() if line.startswith(("+", "-"))]
    write("config.yaml", EVERYTHING.replace("run-the-gate", "rm-it-all").replace("hush", "hash"))
    write("script.sh", "echo gone")
    done = prsm("trust", "--yes")
    changed = [line for line in done.out.splitlines() if line.startswith(("+", "-"))]
    assert "6 lines differ" in done.out
    assert '- gates.tests.command = "run-the-gate"' in changed
    assert '+ gates.tests.command = "rm-it-all"' in changed
    assert sum("API_TOKEN" in line for line in changed) == 2
    assert sum("script.sh" in line for line in changed) == 2
    assert len(changed) == 6
    assert "trusted already" in prsm("trust").out


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_a_person_at_a_terminal_is_asked(prsm, write, monkeypatch, answer, code):
    write("config.yaml", "gates: {tests: {command: make}}\n")
    stdin = io.TextIOWrapper(io.BytesIO(answer.encode()))
    monkeypatch.setattr(stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin", stdin)
    done = prsm("trust")
    assert done.code == code
    assert done.out.index("make") < done.out.index("as it is now?")
    assert (": trusted as sha256:" in done.out) is (code == 0)


def test_nothing_that_is_shown_can_move_the_cursor_or_hide(prsm, write):
    write("config.yaml", 'gates: {"a\\e[2K\\u202e": {command: "x\\e[1A\\u2028y"}}\n')
    write("fi\x1b[2Kle\nx", "")
    done = prsm("trust", "--yes")
    assert done.code == 0
    assert not [c for c in done.out if c != "\n" and not c.isprintable()]
    assert not [line for line in done.out.splitlines() if line.startswith("x")]


def test_a_workspace_without_configuration_is_trusted_for_its_project_checks(prsm, workspace):
    asked = prsm("policy", "check", "pytest -q")
    assert prsm("trust").code == 2
    assert prsm("trust", "--yes").code == 0
    allowed = prsm("policy", "check", "pytest -q")
    (workspace / ".prism").mkdir()
    (workspace / ".prism" / "config.yaml").write_text("gates: {x: {command: y}}\n")
    again = prsm("policy", "check", "pytest -q")
    assert (asked.code, allowed.code, again.code) == (4, 0, 4)
    assert "+ " in prsm("trust").out


@pytest.mark.requirement("E23")
def test_trusting_tells_what_agents_may_have_written_of_the_environment_and_forgets_it(
    prsm, workspace
):
    check = ("policy", "check", ".venv/bin/pytest")
    prsm("trust", "--yes")
    paths = resolve_paths(workspace, os.environ)
    assert prsm(*check).code == 0
    KeptNames(written_path(paths)).note({".venv"})
    assert prsm(*check).code == 4
    shown = prsm("trust", "--yes")
    assert "  .venv" in shown.out.splitlines()
    assert prsm(*check).code == 0
    assert "  .venv" not in prsm("trust", "--yes").out.splitlines()
