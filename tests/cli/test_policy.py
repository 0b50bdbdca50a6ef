"""`prsm policy`: commands are checked, and rules are listed, added and removed."""

from __future__ import annotations

import io
import json

import pytest

from plugins.prsm_policy.tests.judging import rows


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def check_rows(prsm, monkeypatch):
    def check(text):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        return prsm("policy", "check", "--json")

    return check


@pytest.mark.parametrize(
    ("args", "code", "out"),
    [
        (["ls -la"], 0, "allow: it is known to be safe\n"),
        (["make build", "--mode", "bypass"], 0, "allow: bypass mode"),
        (["make build"], 4, "ask: it is not known to be safe\n"),
        (["rm x", "--mode", "bypass"], 4, "ask: deletes or overwrites data: rm x\n"),
        (["make", "--mode", "plan"], 1, "deny: plan mode runs safe commands only\n"),
        (["rm '\x1b[2J'"], 4, "ask: it holds control or invisible characters\n"),
    ],
)
def test_a_command_is_checked_with_its_reason_and_exit_code(prsm, args, code, out):
    done = prsm("policy", "check", *args)
    assert (done.code, done.err) == (code, "")
    assert done.out.startswith(out)


def test_a_checked_command_is_told_as_json(prsm, home):
    (home / "policy.yaml").write_text("deny: [git push]\n")
    done = prsm("policy", "check", "--json", "ls; git push")
    assert done.code == 1
    assert json.loads(done.out) == {
        "id": None,
        "verdict": "deny",
        "reason": "the rule deny 'git push' forbids it: git push",
        "rule": "deny git push",
    }


@pytest.mark.requirement("E23")
def test_recorded_rows_on_stdin_get_accepted_verdicts(prsm_process):
    sample = rows("commands_sample.jsonl")
    stdin = "\n".join(map(json.dumps, sample)).encode() + b"\n\n"
    done = prsm_process("policy", "check", "--json", stdin=stdin)
    assert (done.code, done.err) == (0, "")
    answers = [json.loads(line) for line in done.out.splitlines()]
    assert [answer["id"] for answer in answers] == [row["id"] for row in sample]
    for row, answer in zip(sample, answers, strict=True):
        assert answer.keys() == {"id", "verdict", "reason", "rule"}
        assert answer["verdict"] in row["accept"], row["id"]


def test_a_row_may_leave_out_what_holds_here(check_rows, home):
    (home / "policy.yaml").write_text("allow: [frob]\n")
    given = [
        {"command": "frob"},
        {"command": "frob", "policy": {}},
        {"command": "frob", "policy": {"allow": ["frob"]}, "policy_source": "workspace"},
        {"command": "frob", "mode": "plan"},
        {"command": "ls", "cwd": "/"},
    ]
    done = check_rows("\n".join(map(json.dumps, given)))
    verdicts = [json.loads(line)["verdict"] for line in done.out.splitlines()]
    assert verdicts == ["allow", "ask", "ask", "deny", "ask"]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"id": 1}',
        '{"command": "ls", "mode": "x"}',
        '{"command": "ls", "policy": {"deny": [""]}}',
    ],
)
def test_a_wrong_row_or_no_command_is_wrong_usage(check_rows, prsm, line):
    assert check_rows(line).code == 2
    assert prsm("policy", "check").code == 2


def test_rules_are_added_listed_and_removed(prsm, home, workspace):
    assert "added deny git push" in prsm("policy", "add", "deny", "git", "push").out
    assert "has already deny git push" in prsm("policy", "add", "deny", "git push").out
    assert prsm("policy", "add", "--project", "ask", "rm", "-rf").code == 0
    assert (home / "policy.yaml").read_text() == "deny:\n  - git push\n"
    assert (workspace / ".prism" / "policy.yaml").read_text() == "ask:\n  - rm -rf\n"
    (home / "config.yaml").write_text("permissions: {deny: [curl]}\n")
    listed = json.loads(prsm("policy", "list", "--json").out)
    assert [(row["verdict"], row["words"], row["layer"]) for row in listed] == [
        ("ask", ["rm", "-rf"], "workspace"),
        ("deny", ["curl"], "configuration"),
        ("deny", ["git", "push"], "user"),
    ]
    assert listed[1]["origin"] == f"{home}/config.yaml:1"
    assert listed[2]["origin"] == f"{home}/policy.yaml:2"
    assert "git push" in prsm("policy", "list").out
    assert prsm("policy", "remove", "deny", "git", "push").code == 0
    assert prsm("policy", "remove", "deny", "git", "push").code == 1
    assert prsm("policy", "check", "git push").code == 4


def test_without_rules_the_list_is_empty(prsm):
    done = prsm("policy", "list")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert json.loads(prsm("policy", "list", "--json").out) == []


def test_allow_rules_of_a_workspace_hold_once_it_is_trusted_and_editing_keeps_the_trust(
    prsm, workspace
):
    (workspace / ".prism").mkdir()
    (workspace / ".prism" / "policy.yaml").write_text("allow: [frob]\n")
    done = prsm("policy", "list")
    assert "ignored: the workspace is not trusted" in done.out
    assert "the allow rules of the workspace do not hold" in done.err
    assert prsm("policy", "check", "frob").code == 4
    prsm("trust", "--yes")
    assert prsm("policy", "check", "frob").code == 0
    prsm("policy", "add", "--project", "allow", "grob")
    assert prsm("policy", "check", "frob && grob").code == 0


def test_a_broken_policy_file_is_said_loudly_and_nothing_unsafe_is_allowed(prsm, home):
    (home / "policy.yaml").write_text("allow: [make]\ndeny:\n  - curl\n  - 'git push\n")
    done = prsm("policy", "check", "make", "--mode", "bypass")
    assert done.code == 4
    assert f"{home}/policy.yaml:" in done.err
    assert "only safe commands run unasked" in done.err
    assert prsm("policy", "check", "ls").code == 0
    assert prsm("policy", "check", "curl x").code == 1


def test_a_file_that_cannot_be_read_is_not_overwritten(prsm, home):
    (home / "policy.yaml").write_text("deny: [")
    done = prsm("policy", "add", "deny", "curl")
    assert done.code == 2
    assert (home / "policy.yaml").read_text() == "deny: ["


@pytest.mark.parametrize("words", [["'x"], [""], ["a"] * 17])
def test_a_rule_that_is_none_is_wrong_usage(prsm, home, words):
    assert prsm("policy", "add", "deny", *words).code == 2
    assert not (home / "policy.yaml").exists()


@pytest.mark.requirement("E24")
def test_a_row_that_fails_is_denied_and_the_next_one_is_judged(check_rows):
    rows_given = [{"command": "ls", "cwd": 5}, {"command": "gfind"}, {"command": "ls"}]
    done = check_rows("\n".join(map(json.dumps, rows_given)))
    answers = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0
    assert [answer["verdict"] for answer in answers] == ["deny", "ask", "allow"]
    assert "failed" in answers[0]["reason"]


def test_a_wrong_row_is_told_and_the_next_one_is_judged(check_rows):
    done = check_rows('{"command": "ls"}\n{\n{"command": "pwd", "mode": "x"}\n{"command": "pwd"}')
    assert done.code == 2
    assert [json.loads(line)["verdict"] for line in done.out.splitlines()] == ["allow", "allow"]
    assert "line 2" in done.err
    assert "line 3" in done.err
