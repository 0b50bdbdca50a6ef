"""Each mistake is told in one line: the place, the key path, and what would be right."""

import pytest

from prsm_core.errors import ConfigError

MISTAKES = [
    (
        "engine:\n  max_agent_dept: 3",
        2,
        "engine.max_agent_dept is not a setting; did you mean max_agent_depth?",
    ),
    ("\n\nengin: {}", 3, "engin is not a setting; did you mean engine?"),
    ("plugins: {x: 1}", 1, "plugins.x is not a setting; the settings here are disabled"),
    ("engine: {max_agent_depth: -1}", 1, "engine.max_agent_depth must be greater than or equal to"),
    ("engine: {max_agent_depth: '3'}", 1, "engine.max_agent_depth must be a whole number"),
    ("engine: {max_agent_depth: true}", 1, "engine.max_agent_depth must be a whole number"),
    ("engine: {agent_timeout_seconds: .inf}", 1, "agent_timeout_seconds must be a finite number"),
    ("engine: {agent_timeout_seconds: soon}", 1, "agent_timeout_seconds must be a number"),
    ("engine: 3", 1, "engine must be a mapping"),
    ("defaults: {model: 4.1}", 1, "defaults.model must be text; put it in quotes"),
    (
        "defaults:\n  mode: bypas",
        2,
        "defaults.mode is none of the allowed values: default, accept_edits, bypass, plan, "
        "delegate; did you mean bypass?",
    ),
    ("models:\n  fast:\n    provider: x", 2, "models.fast.model_id is missing"),
    ("models: {fast: small}", 1, "models.fast must be a mapping"),
    (
        "permissions:\n  deny:\n    - rm\n    - [git, no]",
        4,
        "permissions.deny[1][1] must be text; put it in quotes",
    ),
    ("permissions: {deny: [[]]}", 1, "permissions.deny[0] must be at least one word long"),
    ("permissions: {deny: ['']}", 1, "permissions.deny[0] must be at least one word long"),
    ("permissions: {deny: [a 'b]}", 1, "permissions.deny[0] has a quote that is not closed"),
    ("permissions: {deny: [3]}", 1, "permissions.deny[0] must be text or a list of words"),
    ("permissions: {tools: {bash: deny}}", 1, "permissions.tools.bash is written Bash"),
    (
        "permissions: {tools: {Bash: denied}}",
        1,
        "permissions.tools.Bash is none of the allowed values: allow, ask, deny; "
        "did you mean deny?",
    ),
    (
        "model_registry: {m: {affinities: {codng: 1}}}",
        1,
        "model_registry.m.affinities.codng is not a setting; did you mean coding?",
    ),
    ("model_registry: {m: {affinities: {coding: 2}}}", 1, "must be less than or equal to 1"),
    ("mcp_servers: {x: {args: [a]}}", 1, "mcp_servers.x needs either command or url"),
    ("mcp_servers: {x: {command: a, url: b}}", 1, "mcp_servers.x needs either command or url"),
    ("experts: {e: {system_prompt: s, tools: [read]}}", 1, "experts.e.tools[0] is written Read"),
    ("providers: {c: {profiles: [{name: a}]}}", 1, "providers.c.profiles[0] needs env or home"),
    ("engine: {a: 1, max_agent_depth: x}", 1, "(and 1 more)"),
]


@pytest.mark.parametrize(("text", "line", "message"), MISTAKES)
def test_a_mistake_is_told_with_its_place(place, text, line, message):
    path = place.user(text)
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert caught.value.message.startswith(f"{path}:{line}: ")
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 2


def test_an_unknown_section_names_the_installed_plugins(place):
    place.user("codex: {base_url: 'http://x'}")
    with pytest.raises(ConfigError, match="codex is not a setting") as caught:
        place.load(known_plugins=["tui", "codex"])
    message = caught.value.message
    assert message.endswith("installed plugins, set under providers: codex, tui")


@pytest.mark.parametrize(
    "text",
    [
        "providers: {codex: {api_key_env: SECRET-VALUE}}",
        "providers: {codex: {env: {TOKEN: [SECRET-VALUE]}}}",
        "providers: {codex: {profiles: [{name: a, env: {KEY: SECRET-VALUE}}]}}",
        "providers:\n  codex: {env: {TOKEN: SECRET-VALUE}\n",
    ],
)
def test_an_error_never_shows_a_value_that_may_be_secret(place, text):
    place.user(text)
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert "SECRET-VALUE" not in caught.value.message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
