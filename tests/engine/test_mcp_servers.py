"""Which MCP servers an agent gets: explicit over configured, then tags, exclusions last."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.config import Settings
from prsm_core.domain.agents import AgentRole
from prsm_core.domain.tools import McpServer
from prsm_core.engine.spawn import choose_servers

SETTINGS = Settings.of(
    {
        "mcp_servers": {
            "files": {"command": "files"},
            "jira": {"url": "http://jira", "tags": ["ticket", "Jira"]},
            "lint": {"command": "lint", "tags": ["reviewer", "c++"]},
        }
    }
)


def chosen(prompt="do it", role=AgentRole.WORKER, **fields):
    return choose_servers(SETTINGS, prompt=prompt, role=role, **fields)


@pytest.mark.requirement("E11")
@pytest.mark.parametrize(
    ("prompt", "role", "names"),
    [
        ("do it", AgentRole.WORKER, {"files"}),
        ("close the ticket, please", AgentRole.WORKER, {"files", "jira"}),
        ("read JIRA-17", AgentRole.WORKER, {"files", "jira"}),
        ("sell tickets", AgentRole.WORKER, {"files"}),
        ("do it", AgentRole.REVIEWER, {"files", "lint"}),
        ("port it to C++", AgentRole.WORKER, {"files", "lint"}),
    ],
)
def test_a_tagged_server_is_for_agents_whose_prompt_or_role_has_a_tag(prompt, role, names):
    assert chosen(prompt, role).keys() == names


@pytest.mark.requirement("E11")
def test_without_tags_every_server_is_for_everybody():
    settings = Settings.of({"mcp_servers": {"a": {"command": "a"}, "b": {"url": "http://b"}}})
    servers = choose_servers(settings, prompt="x", role=AgentRole.MASTER)
    assert servers == {"a": McpServer(command="a"), "b": McpServer(url="http://b")}


@pytest.mark.requirement("E11")
def test_explicit_servers_lie_over_all_that_are_configured_whatever_their_tags():
    own = {"files": McpServer(command="other"), "mine": McpServer(url="http://mine")}
    servers = chosen(explicit=own)
    assert servers.keys() == {"files", "jira", "lint", "mine"}
    assert servers["files"].command == "other"


@pytest.mark.requirement("E11")
@given(
    exclude=st.sets(st.sampled_from(["files", "jira", "lint", "mine"])),
    explicit=st.none() | st.just({"mine": McpServer(command="m")}),
    prompt=st.sampled_from(["do it", "a ticket in c++"]),
)
def test_what_is_excluded_is_never_there_and_nothing_else_is_lost(exclude, explicit, prompt):
    everything = chosen(prompt, explicit=explicit)
    assert chosen(prompt, explicit=explicit, exclude=exclude).keys() == everything.keys() - exclude
