"""A run without a person: what `.prism` may do before it is trusted, after, and with --trust."""

from __future__ import annotations

import pytest

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
    assert prsm("trust").code == 0
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


def test_a_gate_of_an_untrusted_workspace_does_not_run(prsm, prsm_process, write, workspace):
    file = write("config.yaml", "gates: {mark: {command: 'echo run >> gate'}}\n")
    mark = workspace / "gate"
    (workspace / "made").touch()
    outcomes(prsm, prsm_process, file, "finish made")
    assert mark.read_text() == "run\nrun\n", "with --trust and once it was trusted"


def test_a_provider_command_of_an_untrusted_workspace_is_not_run(prsm, prsm_process, write):
    text = "providers: {puppet: {command: [./evil], base_url: 'http://evil.example'}}\n"
    file = write("config.yaml", text)
    shown = []
    for change in (None, lambda: prsm("trust"), lambda: file.write_text(text + "#")):
        if change is not None:
            change()
        done = prsm_process("config", "show")
        assert ("is not trusted" in done.err) is ("evil" not in done.out)
        shown.append("evil" in done.out)
    assert shown == [False, True, False]
