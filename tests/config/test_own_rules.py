"""The user's own rules: where they go, and what becomes of the trust in a workspace."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from prsm_core.config import resolve_paths, trust
from prsm_core.config.own_rules import OwnRules, change_rule
from prsm_core.config.policy_file import read_policy, user_policy_path, workspace_policy_path
from prsm_core.errors import ConfigError

BUILD = ("npm", "run", "build")


@pytest.fixture
def paths(tmp_path):
    """A workspace without a `.prism`."""
    (tmp_path / "work").mkdir()
    return resolve_paths(tmp_path / "work", {"PRSM_HOME": str(tmp_path / "home")})


def rules(paths, layer):
    found = read_policy(paths).rules
    return [(rule.verdict, rule.words) for rule in found if rule.layer == layer]


def add(paths, verdict="allow", words=BUILD, *, project=True):
    return change_rule(paths, verdict, words, project=project)


@pytest.mark.requirement("D11")
def test_a_rule_lies_outside_the_repository_unless_the_user_chose_the_project(paths):
    assert add(paths, project=False)
    assert rules(paths, "user") == [("allow", BUILD)]
    assert not paths.workspace_dir.exists()
    assert not user_policy_path(paths).is_relative_to(paths.workspace)
    assert add(paths, "deny")
    assert rules(paths, "workspace") == [("deny", BUILD)]
    assert not add(paths, "deny"), "it has the rule already"


@pytest.mark.requirement("U9")
def test_a_trusted_workspace_stays_trusted_by_the_users_own_rule(paths):
    paths.workspace_dir.mkdir(parents=True, exist_ok=True)
    paths.workspace_config.write_text("gates: {}\n")
    trust.trust(paths)
    for verdict in ("allow", "deny", "ask"):
        assert add(paths, verdict)
        assert trust.is_trusted(paths)
    assert change_rule(paths, "allow", BUILD, project=True, adds=False)
    assert trust.is_trusted(paths)
    assert rules(paths, "workspace") == [("deny", BUILD), ("ask", BUILD)]


@pytest.mark.parametrize("name", ["config.yaml", "agents/evil.md", "models.yaml"])
@pytest.mark.requirement("U9")
def test_what_else_changed_meanwhile_does_not_become_trusted(paths, name):
    paths.workspace_dir.mkdir(parents=True)
    paths.workspace_config.write_text("gates: {}\n")
    trust.trust(paths)

    def change(_old):
        planted = paths.workspace_dir / name  # by somebody else, at the worst moment
        planted.parent.mkdir(exist_ok=True)
        planted.write_text("gates: {evil: {command: ./evil}}\n")
        return b"deny: [rm]\n"

    with trust.locked(paths):
        assert trust.change_file(paths, "policy.yaml", change, lambda _: False)
    assert rules(paths, "workspace") == [("deny", ("rm",))]
    assert not trust.is_trusted(paths)


def test_an_own_rule_does_not_make_the_content_of_others_trusted(paths):
    paths.workspace_dir.mkdir(parents=True, exist_ok=True)
    workspace_policy_path(paths).write_text("allow: [make deploy]\n")
    assert not OwnRules.of(paths).may_allow_for_project
    assert add(paths)
    assert not trust.is_trusted(paths)


@pytest.mark.requirement("U9")
def test_trust_begins_with_an_allow_rule_where_there_was_nothing_to_distrust(paths):
    assert OwnRules.of(paths).may_allow_for_project
    assert add(paths, "deny", ("git", "push"))
    assert not trust.is_trusted(paths), "a rule to deny needs no trust"
    assert OwnRules.of(paths).may_allow_for_project
    assert add(paths)
    assert trust.is_trusted(paths)
    assert OwnRules.of(paths).may_allow_for_project


@pytest.mark.parametrize("planted", ["config.yaml", "models.yaml", "agents", ".hidden"])
def test_trust_does_not_begin_where_something_else_lies(paths, planted):
    (paths.workspace_dir / planted).mkdir(parents=True, exist_ok=True)
    assert not OwnRules.of(paths).may_allow_for_project
    add(paths)
    assert not trust.is_trusted(paths)


@pytest.mark.parametrize("link", [".prism", "policy.yaml"])
def test_a_rule_is_not_written_through_a_link(paths, link, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    path = paths.workspace_dir if link == ".prism" else paths.workspace_dir / link
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(outside if link == ".prism" else outside / "policy.yaml")
    assert not OwnRules.of(paths).may_allow_for_project
    with pytest.raises(ConfigError, match="must not be a link"):
        add(paths)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("text", ["allow: {", "allow: [[1]]\n", "rules: []\n", "\xff"])
def test_a_policy_file_that_cannot_be_read_is_left_as_it_is(paths, text):
    paths.workspace_dir.mkdir(parents=True, exist_ok=True)
    path = workspace_policy_path(paths)
    path.write_text(text, encoding="latin-1")
    assert not OwnRules.of(paths).may_allow_for_project
    with pytest.raises(ConfigError, match=r"policy\.yaml"):
        add(paths)
    assert path.read_text(encoding="latin-1") == text


def test_what_is_no_file_is_not_waited_for(paths):
    workspace_policy_path(paths).mkdir(parents=True, exist_ok=True)
    with pytest.raises(ConfigError, match="is not a regular file"):
        add(paths)


def test_a_place_that_cannot_be_written_is_an_error_that_names_it(paths):
    paths.data.parent.mkdir(parents=True, exist_ok=True)
    paths.data.write_text("in the way")
    with pytest.raises(ConfigError, match="home/data"):
        add(paths, project=False)


def test_the_rights_of_a_file_stay_and_a_new_one_is_the_users_alone(paths):
    add(paths)
    path = workspace_policy_path(paths)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    add(paths, "deny")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize("project", [True, False])
def test_rules_made_at_the_same_time_are_all_kept_and_trusted(paths, project):
    wanted = [("make", f"part-{number}") for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda words: add(paths, words=words, project=project), wanted))
    layer = "workspace" if project else "user"
    assert sorted(rules(paths, layer)) == sorted(("allow", words) for words in wanted)
    assert trust.is_trusted(paths) is project
