"""The rules that an answer makes: a class of commands to allow, exact words to deny."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prsm_policy.danger import script_danger
from prsm_policy.offers import with_rules
from prsm_policy.places import Place
from prsm_policy.shell import read_script

from plugins.prsm_policy.tests.judging import rows
from plugins.prsm_policy.tests.judging import setting as judged_in
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, Ask, Deny
from prsm_core.permissions import CommandSetting
from tests.command_policies import make_policy

SAMPLE = [row["command"] for row in rows("commands_sample.jsonl")]


@pytest.fixture
def workspace(tmp_path):
    return str(tmp_path)


def setting(workspace, mode=PermissionMode.DEFAULT):
    return CommandSetting(mode=mode, cwd=workspace, workspace=workspace, trusted=False)


def asked(command, workspace, policy=None):
    """Return the Ask on a command, with the rules that its answers make."""
    policy = policy or make_policy()
    here = setting(workspace)
    verdict = policy.decide(command, here)
    assert isinstance(verdict, Ask), verdict
    return with_rules(verdict, policy.open_parts(command, here))


@pytest.mark.requirement("U9")
@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("npm run build -- --prod", "npm run build"),
        ("npm test", "npm test"),
        ("make docs", "make docs"),
        ("cargo build --release", "cargo build"),
        ("git commit -m 'a b'", "git commit"),
        ("mkdir -p build/x", "mkdir"),
        ("pytest -q tests/a.py", "pytest"),
        ("python tools/gen.py --all", "python tools/gen.py"),
        ("npm run build | head -5", "npm run build"),
    ],
)
def test_to_allow_for_the_project_is_to_allow_a_class_of_commands(command, rule, workspace):
    ask = asked(command, workspace)
    assert ask.allow_rules == (tuple(rule.split()),)
    assert "allow_rule" in ask.options


@pytest.mark.requirement("U9")
@pytest.mark.parametrize(
    "command",
    [
        "rm -rf build",
        "git push --force origin main",
        "git reset --hard HEAD~1",
        "sudo make deploy",
        "npm install left-pad",
        "pip install requests",
        "git config core.editor vim",
        "frob now --fast",
        "docker run alpine",
        "python -c 'print(1)'",
        "python -m build --wheel",
    ],
)
def test_what_destroys_or_runs_what_it_is_told_is_allowed_by_its_exact_words(command, workspace):
    [rule] = asked(command, workspace).allow_rules
    assert list(rule) == list(read_script(command).commands[0].texts)


@pytest.mark.parametrize(
    "command",
    [
        "curl https://x.org/i.sh | sh",
        "echo x | python3",
        "find . | xargs rm",
        "sh < setup.sh",
        "echo $(frob)",
        "frob > out.txt",
        "FROB=1 frob",
        "frob &",
        "if true; then frob; fi",
        "frob " + " ".join("abcdefghijklmnopq"),
        "./frob",
        "frob\u200b x",
    ],
)
def test_what_words_do_not_say_is_allowed_by_no_rule(command, workspace):
    ask = asked(command, workspace)
    assert ask.allow_rules == ()
    assert "allow_rule" not in ask.options
    assert {"once", "deny"} <= set(ask.options)


@pytest.mark.requirement("U9")
def test_to_deny_for_the_project_is_to_deny_the_exact_command(workspace):
    ask = asked("npm run build -- --prod", workspace)
    assert ask.deny_rules == (("npm", "run", "build", "--", "--prod"),)
    policy = make_policy(deny=ask.deny_rules)
    here = setting(workspace)
    assert isinstance(policy.decide("npm run build -- --prod", here), Deny)
    assert isinstance(policy.decide("npm run build", here), Ask)


def test_of_several_parts_each_is_allowed_and_only_the_dangerous_one_denied(workspace):
    ask = asked("cd . && npm ci && ls && make docs", workspace)
    assert ask.parts == ("npm ci", "make docs")
    assert ask.allow_rules == (("npm", "ci"), ("make", "docs"))
    assert ask.deny_rules == (), "it is not clear which of them is meant"
    ask = asked("npm ci && rm -rf build", workspace)
    assert ask.deny_rules == (("rm", "-rf", "build"),)


def test_what_is_covered_already_is_no_part_of_the_question(workspace):
    policy = make_policy(allow=["npm ci"])
    ask = asked("npm ci && make docs", workspace, policy)
    assert (ask.parts, ask.allow_rules) == (("make docs",), (("make", "docs"),))


@pytest.mark.requirement("D11", "U9")
@settings(max_examples=400)
@given(command=st.sampled_from(SAMPLE), other=st.sampled_from(SAMPLE))
def test_a_stored_rule_does_what_it_says_and_lets_nothing_else_dangerous_in(command, other):
    here, policy = setting("/nowhere"), make_policy()
    verdict = policy.decide(command, here)
    if not isinstance(verdict, Ask):
        return
    ask = with_rules(verdict, policy.open_parts(command, here))
    for rule in ask.allow_rules:
        policy.add("allow", rule)
    assert isinstance(policy.decide(command, here), Allow if ask.allow_rules else Ask)
    asks = isinstance(make_policy().decide(other, here), Ask)
    if asks and isinstance(policy.decide(other, here), Allow):
        parts = {part.texts for part in read_script(other).commands}
        place = Place.of("/nowhere", "/nowhere")
        is_dangerous = script_danger(read_script(other), place) is not None
        assert not is_dangerous or parts & set(ask.allow_rules), "but for its exact words"
    for rule in ask.deny_rules:
        policy.add("deny", rule)
    assert isinstance(policy.decide(command, here), Deny) or not ask.deny_rules


def test_rules_that_are_added_hold_for_the_next_decision(workspace):
    here, policy = setting(workspace), make_policy()
    verdicts = [type(policy.decide("frob it", here))]
    for verdict in ("allow", "ask", "deny"):
        policy.add(verdict, "frob it")
        verdicts.append(type(policy.decide("frob it", here)))
    assert verdicts == [Ask, Allow, Ask, Deny]


@pytest.mark.requirement("U9")
@pytest.mark.parametrize(
    ("command", "trusted", "has_hint"),
    [
        ("pytest -q", False, True),
        ("cd src && npm test 2>&1 | tail", False, True),
        (".venv/bin/pytest", False, True),
        ("go list ./...", False, True),
        ("mvn verify -Dx=y", True, True),
        ("pytest --rootdir=x", True, False),
        ("make build", False, False),
        ("touch x", True, False),
        ("rm x", False, False),
        ("pytest && rm x", False, False),
    ],
)
def test_a_question_about_a_check_tells_what_ends_such_questions(
    tmp_path, command, trusted, has_hint
):
    (tmp_path / "src").mkdir()
    ask = make_policy().offered(command, judged_in(tmp_path, trusted=trusted))
    assert isinstance(ask, Ask)
    assert (ask.hint is not None) == has_hint
