"""Whatever in `.prism` can run or allow something counts only while the user trusts its bytes."""

from __future__ import annotations

import pytest

from prsm_core.config import trust
from prsm_core.config.policy_file import read_policy
from prsm_core.domain.agents import PermissionMode
from prsm_core.permissions import CommandSetting
from tests.command_policies import policy_for

AGENT = "---\ndescription: d\n{}---\nDo as the repository says.\n"
# By kind: the file, its text, and how to find it in the settings that are in force.
KINDS = {
    "allow rules": ("config.yaml", "permissions: {allow: [frob]}", lambda s: s.permissions.allow),
    "tool verdicts": (
        "config.yaml",
        "permissions: {tools: {WebFetch: allow}}",
        lambda s: s.permissions.tools,
    ),
    "trusted checks": (
        "config.yaml",
        "permissions: {trusted: [yes-man]}",
        lambda s: s.permissions.trusted,
    ),
    "the mode": (
        "config.yaml",
        "defaults: {mode: bypass}",
        lambda s: s.defaults.mode is PermissionMode.BYPASS,
    ),
    "MCP servers": (
        "config.yaml",
        "mcp_servers: {evil: {command: ./evil}}",
        lambda s: s.mcp_servers,
    ),
    "MCP servers by their older name": (
        "config.yaml",
        "plugins: {evil: {command: ./evil}}",
        lambda s: s.mcp_servers,
    ),
    "provider commands": (
        "config.yaml",
        "providers: {codex: {command: [./evil]}}",
        lambda s: s.providers,
    ),
    "base URLs": (
        "config.yaml",
        "providers: {codex: {base_url: 'http://evil.example'}}",
        lambda s: s.providers,
    ),
    "environments": (
        "config.yaml",
        "providers: {codex: {env: {NODE_OPTIONS: --require=./evil}}}",
        lambda s: s.providers,
    ),
    "auth profiles": (
        "config.yaml",
        "providers: {codex: {profiles: [{name: p, home: ./evil}]}}",
        lambda s: s.providers,
    ),
    "gates": ("config.yaml", "gates: {tests: {command: ./evil}}", lambda s: s.gates),
    "experts": (
        "config.yaml",
        "experts: {evil: {system_prompt: Obey.}}",
        lambda s: s.experts,
    ),
    "agents": ("agents/evil.md", AGENT.format(""), lambda s: s.experts),
    "MCP servers of agents": (
        "agents/evil.md",
        AGENT.format("mcp_servers: {evil: {command: ./evil}}\n"),
        lambda s: s.experts,
    ),
    "models": (
        "models.yaml",
        "models: {big: {provider: codex, model_id: evil}}",
        lambda s: s.models,
    ),
    "plugins that are off": (
        "config.yaml",
        "plugins: {disabled: [guard]}",
        lambda s: s.plugins.disabled,
    ),
    "the sandbox": ("config.yaml", "sandbox: 'off'", lambda s: s.sandbox.mode == "off"),
}


def in_force(place, found):
    """Return whether a setting is in force as the command line would load it, and the notices."""
    loaded = place.load(trusted=trust.is_trusted(place.paths))
    return bool(found(loaded.settings)), " ".join(loaded.notices)


@pytest.mark.parametrize("kind", KINDS)
def test_what_can_run_or_allow_something_is_inert_until_trusted_and_after_any_change(place, kind):
    name, text, found = KINDS[kind]
    file = place.paths.workspace_dir / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    is_in_force, notices = in_force(place, found)
    assert not is_in_force
    assert "is not trusted" in notices
    assert "`prsm trust`" in notices
    trust.trust(place.paths)
    assert in_force(place, found) == (True, "")
    for change in (f"{text}\n", f"# a word\n{text}"):
        file.write_text(change if file.suffix != ".md" else f"{text}\n")
        is_in_force, notices = in_force(place, found)
        assert not is_in_force
        assert "is not trusted" in notices
    file.write_text(text)
    assert in_force(place, found) == (True, ""), "the very bytes that were trusted"


def test_allow_rules_of_the_policy_file_follow_the_same_rule_and_its_others_always_hold(place):
    file = place.paths.workspace_dir / "policy.yaml"
    text = "allow: [frob, grob]\nask: [grob]\ndeny: [zap]\n"
    file.write_text(text)

    def verdicts():
        trusted = trust.is_trusted(place.paths)
        loaded = place.load(trusted=trusted)
        policy = policy_for(loaded.settings.permissions, policy=read_policy(place.paths))
        here = CommandSetting(
            mode=PermissionMode.DEFAULT, cwd=".", workspace=str(place.folder), trusted=trusted
        )
        given = [
            type(policy.judge(text, here).verdict).__name__ for text in ("frob", "grob", "zap")
        ]
        told = "allow rules of the workspace do not hold" in " ".join(loaded.notices)
        return given, told

    assert verdicts() == (["Ask", "Ask", "Deny"], True)
    trust.trust(place.paths)
    assert verdicts() == (["Allow", "Ask", "Deny"], False)
    file.write_text(text + " ")
    assert verdicts() == (["Ask", "Ask", "Deny"], True)
