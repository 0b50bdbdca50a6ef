"""Each mistake is told in one line: the place, the key path, and what would be right."""

import re

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
        "defaults.mode is none of the allowed values: accept_edits, bypass, default, delegate, "
        "plan; did you mean bypass?",
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
    (
        "permissions:\n  deny: [rm]\n  ask: [ls, git push && rm]",
        3,
        "permissions.ask[1] has '&&': a rule is the first words of one command; "
        "give each command a rule of its own",
    ),
    ("engine: [", 1, "1:10: is not YAML: expected the node content"),
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
    (
        "workspace: {worktree_copy: [../x]}",
        1,
        "worktree_copy[0] must be a path below the workspace",
    ),
    ("workspace: {worktree_copy: ['']}", 1, "worktree_copy[0] must be a path below the workspace"),
    ('pass_env: ["A\\n"]', 1, "pass_env[0] must be the name of an environment variable"),
    ("mcp_servers: {x: {command: a, env: {1A: b}}}", 1, "x.env.1A must be the name of an environ"),
    ("notify: {webhook: 'ftp://x'}", 1, "notify.webhook must begin with http:// or https://"),
    ("budgets: {usd: true}", 1, "budgets.usd must be a number"),
    ("box: {agents: 'true'}", 1, "box.agents must be true or false"),
    ("models: {'': {provider: x, model_id: y}}", 1, "models. must be at least 1 character long"),
    (
        "gates: {t: {command: a, roles: [boss]}}",
        1,
        "gates.t.roles[0] is none of the allowed values",
    ),
]


@pytest.mark.parametrize(("text", "line", "message"), MISTAKES)
def test_a_mistake_is_told_with_its_place(place, text, line, message):
    path = place.user(text)
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert caught.value.message.startswith(f"{path}:{line}:")
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 2


def test_all_mistakes_are_told_in_the_order_of_the_file(place):
    user = place.user("sandbox:\n  mode: x\nengine:\n  a: 1\n  max_agent_depth: x\n")
    workspace = place.workspace("defaults: {model: 3}")
    with pytest.raises(ConfigError) as caught:
        place.load(sets=["budgets.tokens=0"])
    head, *lines = caught.value.message.split("\n  ")
    assert head == "the configuration has 5 mistakes:"
    assert [line.partition(": ")[0] for line in lines] == [
        "--set budgets.tokens",
        f"{user}:2",
        f"{user}:4",
        f"{user}:5",
        f"{workspace}:1",
    ]
    assert lines[2].startswith(f"{user}:4: engine.a is not a setting; the settings here are ")
    assert lines[3] == f"{user}:5: engine.max_agent_depth must be a whole number"


def test_of_very_many_mistakes_ten_are_told(place):
    user = place.user("".join(f"key{n}: 1\n" for n in range(13)))
    with pytest.raises(ConfigError) as caught:
        place.load()
    _, *lines = caught.value.message.split("\n  ")
    assert re.findall(r"(\d+): key", "\n".join(lines)) == [str(n) for n in range(1, 11)]
    assert (len(lines), lines[-1]) == (11, "and 3 more")
    assert lines[0].startswith(f"{user}:1: ")


def test_every_provider_that_is_not_installed_is_told(place):
    user = place.user("providers:\n  codx: {}\n  mine: {kind: cladue}\n")
    with pytest.raises(ConfigError) as caught:
        place.load(known_plugins=["codex", "claude"])
    _, first, second = caught.value.message.split("\n  ")
    assert first.startswith(f"{user}:2: providers.codx belongs to no installed plugin; did you")
    assert second.startswith(f"{user}:3: providers.mine.kind: there is no provider 'cladue'; did")


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
