"""Policy files: what is read of them, also when they are broken, and how they are edited."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.config.paths import resolve_paths
from prsm_core.config.policy_file import (
    edit_policy,
    parse_rule,
    policy_notices,
    read_policy,
    render_rule,
)
from prsm_core.errors import ConfigError


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "work" / ".prism").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    return resolve_paths(tmp_path / "work", {"PRSM_HOME": str(tmp_path / "home")})


@pytest.fixture
def user_file(paths):
    return paths.user_config.parent / "policy.yaml"


@pytest.fixture
def workspace_file(paths):
    return paths.workspace_dir / "policy.yaml"


def test_no_file_is_an_empty_policy(paths):
    policy = read_policy(paths)
    assert (policy.rules, policy.problems, policy.incomplete) == ((), (), False)


def test_rules_of_both_files_are_read_with_their_place(paths, user_file, workspace_file):
    user_file.write_text("allow:\n  - npm run build\ndeny: [[git, push], 'rm \"a b\"']\nask:\n")
    workspace_file.write_text("allow: [frob]\n")
    policy = read_policy(paths)
    assert [(rule.verdict, rule.words, rule.layer, rule.origin) for rule in policy.rules] == [
        ("allow", ("npm", "run", "build"), "user", f"{user_file}:2"),
        ("deny", ("git", "push"), "user", f"{user_file}:3"),
        ("deny", ("rm", "a b"), "user", f"{user_file}:3"),
        ("allow", ("frob",), "workspace", f"{workspace_file}:1"),
    ]
    assert policy.words("allow") == (("npm", "run", "build"), ("frob",))
    assert policy.words("allow", "workspace") == (("frob",),)
    assert not policy.problems
    assert len(policy_notices(policy, trusted=False)) == 1
    assert not policy_notices(policy, trusted=True)


@pytest.mark.parametrize(
    ("text", "problem", "incomplete"),
    [
        ("allow: [a, '']\ndeny: [b]", ":1: a rule to allow must have 1 to 16 words", False),
        ("deny:\n  - b\n  - 3\n", ":3: a rule to deny must be text or a list of words", True),
        ('deny: [b, "c \'d"]', ":1: a rule to deny has a quote that is not closed", True),
        ("deny:\n  - b\n  - git push && rm\n", ":3: a rule to deny has '&&'", True),
        ("ask: [[]]\ndeny: [b]", ":1: a rule to ask must have", True),
        ("allow: x\ndeny: [b]", ":1: allow must be a list of rules", False),
        ("deny: [b]\nask: x", ":2: ask must be a list of rules", True),
        ("deny: [b]\ndenied: [c]", ":2: denied is not one of allow, ask, deny", True),
        ("deny:\n  - b\n  - 'c\n", "policy.yaml:", True),
        ("deny:\n  - b\n  - c: [\n", "policy.yaml:", True),
        ("deny:\n- b # no\n\tx: y\n", "policy.yaml:", True),
    ],
)
def test_a_wrong_rule_is_reported_and_the_others_hold(paths, user_file, text, problem, incomplete):
    user_file.write_text(text)
    policy = read_policy(paths)
    assert any(problem in each for each in policy.problems), policy.problems
    assert policy.incomplete is incomplete
    assert ("b",) in policy.words("deny")
    notices = policy_notices(policy, trusted=True)
    assert len(notices) == len(policy.problems) + incomplete


@pytest.mark.parametrize("data", [b"\xff\xfe", b"- a\n", b"deny: [", b"\0", b"a: &a [*a]"])
def test_a_file_that_is_no_policy_is_incomplete_and_raises_nothing(paths, user_file, data):
    user_file.write_bytes(data)
    policy = read_policy(paths)
    assert policy.problems
    assert policy.incomplete


def test_nothing_is_salvaged_to_be_allowed(paths, user_file):
    user_file.write_text("allow:\n  - rm\ndeny:\n  - [git, push]\n  - 'x\n")
    policy = read_policy(paths)
    assert policy.words("allow") == ()
    assert ("git", "push") in policy.words("deny")


def test_a_link_in_the_workspace_is_not_followed(paths, workspace_file, tmp_path):
    (tmp_path / "other.yaml").write_text("allow: [rm]\n")
    workspace_file.symlink_to(tmp_path / "other.yaml")
    policy = read_policy(paths)
    assert not policy.rules
    assert policy.incomplete
    assert "must not be a link" in policy.problems[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "deny:\n  - x y\n"),
        ("# mine\nallow:\n- a # why\n", "# mine\nallow:\n- a # why\ndeny:\n  - x y\n"),
        ("deny:\n- a\n# b\nallow: [c]\n", "deny:\n- a\n- x y\n# b\nallow: [c]\n"),
        ("deny:\n    - a\n    - b\n", "deny:\n    - a\n    - b\n    - x y\n"),
        ("deny:\nallow: [a]\n", "deny:\n  - x y\nallow: [a]\n"),
        ("deny: [a]\n", "deny:\n- - a\n- - x\n  - y\n"),
    ],
)
def test_a_rule_is_added_and_the_other_lines_stay(user_file, before, after):
    user_file.write_text(before)
    assert edit_policy(user_file, "deny", ("x", "y"))
    assert user_file.read_text() == after
    assert not edit_policy(user_file, "deny", ("x", "y"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("deny:\n  - a\n  - x y # z\n  - b\n", "deny:\n  - a\n  - b\n"),
        ("deny:\n  - [x, y]\nallow: [c]\n", "deny:\nallow: [c]\n"),
        ("deny: [x y, a]\n", "deny:\n- - a\n"),
        ("allow:\n- x y\ndeny:\n- x y\n", "allow:\n- x y\ndeny:\n"),
    ],
)
def test_a_rule_is_removed_and_the_other_lines_stay(user_file, before, after):
    user_file.write_text(before)
    assert edit_policy(user_file, "deny", ("x", "y"), adds=False)
    assert user_file.read_text() == after
    assert not edit_policy(user_file, "deny", ("x", "y"), adds=False)


@pytest.mark.parametrize("text", ["deny: [", "x: y\n", "- a\n", "deny: x\n", "deny: [3]\n"])
def test_a_file_that_cannot_be_read_is_never_overwritten(user_file, text):
    user_file.write_text(text)
    with pytest.raises(ConfigError):
        edit_policy(user_file, "deny", ("x",))
    assert user_file.read_text() == text


WORDS = (
    st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4)
    .map(tuple)
    .filter(lambda words: words[0][0] != "@")  # those name classes of commands
)
PLAIN = st.text(st.sampled_from("abz09 -./=@#:'\"[]{}&*!|>%,\\"), min_size=1, max_size=8)
RULES = st.lists(PLAIN, min_size=1, max_size=4).map(tuple).filter(lambda words: words[0][0] != "@")


@given(st.lists(st.tuples(st.sampled_from(["allow", "ask", "deny"]), RULES), max_size=6))
def test_what_was_added_is_read_again(tmp_path_factory, rules):
    path = tmp_path_factory.mktemp("policy") / "policy.yaml"
    for verdict, words in rules:
        edit_policy(path, verdict, words)
    paths = resolve_paths(path.parent, {"PRSM_HOME": str(path.parent)})
    policy = read_policy(paths)
    assert not policy.problems
    assert {(rule.verdict, rule.words) for rule in policy.rules} == set(rules)
    for verdict, words in set(rules):
        assert edit_policy(path, verdict, words, adds=False)
    assert not read_policy(paths).rules


@given(WORDS)
def test_a_rule_in_words_is_itself(words):
    assert parse_rule(list(words)) == words
    assert render_rule(words)


def test_a_file_of_the_users_that_is_a_link_stays_one(user_file, tmp_path):
    kept = tmp_path / "dotfiles" / "policy.yaml"
    user_file.symlink_to(kept)
    assert edit_policy(user_file, "deny", ("x",))
    assert edit_policy(user_file, "deny", ("x",), adds=False)
    assert edit_policy(user_file, "ask", ("y",))
    assert user_file.is_symlink()
    assert "y" in kept.read_text()
