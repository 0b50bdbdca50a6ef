"""Every source counts, in its order; what an untrusted workspace says does not."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prsm_core.config import Settings
from prsm_core.errors import ConfigError
from tests.config.place import Place

# From the weakest to the strongest, as DEPTH sets engine.max_agent_depth through each.
DEPTH = {
    "user": lambda place, n: place.user(f"engine: {{max_agent_depth: {n}}}"),
    "workspace": lambda place, n: place.workspace(f"engine:\n  max_agent_depth: {n}\n"),
    "section variable": lambda place, n: place.environ.update(
        PRSM__ENGINE=f"{{max_agent_depth: {n}}}"
    ),
    "variable": lambda place, n: place.environ.update(PRSM__ENGINE__MAX_AGENT_DEPTH=str(n)),
}
MODEL = {
    "user models": lambda place, text: place.user_models(text),
    "user": lambda place, text: place.user(text),
    "workspace models": lambda place, text: place.workspace_models(text),
    "workspace": lambda place, text: place.workspace(text),
    "variable": lambda place, text: place.environ.update(
        PRSM__MODELS=text.removeprefix("models:").strip()
    ),
}


def in_a_place(test):
    """Run a property test in a fresh folder for each example."""
    with TemporaryDirectory() as folder:
        return test(Place(Path(folder)))


def test_without_any_source_the_built_in_settings_hold(place):
    loaded = place.load()
    assert loaded.settings == Settings()
    assert loaded.settings.engine.max_agent_depth == 5
    assert loaded.settings.engine.max_concurrent_agents == 10
    assert (loaded.sources, loaded.notices) == ({}, ())


@pytest.mark.requirement("U11")
@given(
    files=st.dictionaries(st.sampled_from(list(DEPTH)), st.integers(1, 99)),
    sets=st.none() | st.integers(1, 99),
    flag=st.none() | st.integers(1, 99),
)
def test_the_strongest_source_that_sets_a_key_wins(files, sets, flag):
    def check(place):
        for name, value in files.items():
            DEPTH[name](place, value)
        said = [files[name] for name in DEPTH if name in files]
        said += [value for value in (sets, flag) if value is not None]
        loaded = place.load(
            sets=[] if sets is None else [f"engine.max_agent_depth={sets}"],
            overrides={"engine.max_agent_depth": flag},
        )
        assert loaded.settings.engine.max_agent_depth == (said or [5])[-1]

    in_a_place(check)


@pytest.mark.requirement("E44")
@given(st.sets(st.sampled_from(list(MODEL)), min_size=1))
def test_models_files_lie_below_the_main_file_beside_them(sources):
    def check(place):
        for name in MODEL:
            if name in sources:
                MODEL[name](place, f"models: {{fast: {{provider: x, model_id: {name!r}}}}}")
        strongest = [name for name in MODEL if name in sources][-1]
        assert place.load().settings.models["fast"].model_id == strongest

    in_a_place(check)


@given(
    st.lists(
        st.lists(st.sampled_from(["rm", "dd", "git push", "curl"]), max_size=3),
        min_size=4,
        max_size=4,
    ),
    st.sampled_from(["deny", "ask"]),
    st.booleans(),
)
def test_deny_and_ask_rules_of_all_layers_add_up_and_none_can_drop_one(rules, verdict, trusted):
    def check(place):
        user, workspace, variable, option = rules
        place.user(f"permissions: {{{verdict}: {user}}}")
        place.workspace(f"permissions: {{{verdict}: {workspace}}}")
        place.environ[f"PRSM__PERMISSIONS__{verdict.upper()}"] = str(variable)
        loaded = place.load(trusted=trusted, sets=[f"permissions.{verdict}={option}"])
        expected = dict.fromkeys(tuple(rule.split()) for layer in rules for rule in layer)
        assert getattr(loaded.settings.permissions, verdict) == tuple(expected)

    in_a_place(check)


def test_no_layer_drops_a_required_check_and_an_untrusted_workspace_adds_none(place):
    place.user("permissions: {required: [no-force-push]}")
    place.workspace("permissions: {required: [licence]}")
    place.environ["PRSM__PERMISSIONS__REQUIRED"] = "[]"
    assert place.load().settings.permissions.required == ("no-force-push", "licence")
    assert place.load(trusted=False).settings.permissions.required == ("no-force-push",)


def test_a_layer_with_empty_rules_or_an_empty_section_drops_no_rule(place):
    place.user("permissions: {deny: [rm]}")
    place.workspace("permissions:\n")
    place.environ["PRSM__PERMISSIONS__DENY"] = ""
    loaded = place.load(sets=["permissions=", "permissions.deny=[]"])
    assert loaded.settings.permissions.deny == (("rm",),)


@pytest.mark.parametrize("value", ["rm", "{rm: 1}", "3"])
def test_rules_that_are_no_list_are_refused_rather_than_replace_those_below(place, value):
    place.user("permissions: {deny: [dd]}")
    place.workspace(f"permissions: {{deny: {value}}}")
    with pytest.raises(ConfigError, match=r"permissions\.deny must be a list"):
        place.load(sets=["permissions.deny=[rm]"])
    place.workspace("permissions: no rules")
    with pytest.raises(ConfigError, match="permissions must be a mapping"):
        place.load(trusted=False, sets=["permissions.deny=[rm]"])


def test_other_lists_replace_and_mappings_merge(place):
    place.user(
        "defaults: {peer_models: [a, b]}\n"
        "permissions: {allow: [make]}\n"
        "providers: {codex: {base_url: 'http://one', env: {A: '1'}}}\n"
    )
    place.workspace(
        "defaults: {peer_models: [c]}\n"
        "permissions: {allow: [ninja]}\n"
        "providers: {codex: {env: {B: '2'}}}\n"
    )
    settings = place.load().settings
    assert settings.defaults.peer_models == ("c",)
    assert settings.permissions.allow == (("ninja",),)
    assert settings.provider_settings("codex") == {
        "base_url": "http://one",
        "env": {"A": "1", "B": "2"},
    }


def test_an_empty_value_goes_back_to_the_default(place):
    place.user("engine: {max_agent_depth: 9}\ndefaults: {model: fast}\nproviders: {codex: }\n")
    place.workspace("engine:\n  max_agent_depth:\ndefaults:\n  model: null\n")
    settings = place.load().settings
    assert settings.engine.max_agent_depth == 5
    assert settings.defaults.model is None
    assert settings.provider_settings("codex") == {}


def test_an_untrusted_workspace_gives_its_deny_and_ask_rules_and_nothing_else(place):
    place.workspace_models("models: {fast: {provider: evil, model_id: m}}")
    place.workspace(
        "permissions: {allow: [rm], deny: [curl], ask: [make], tools: {Bash: allow}}\n"
        "providers: {codex: {command: ./evil, base_url: 'http://evil'}}\n"
        "mcp_servers: {evil: {command: ./evil}}\n"
        "defaults: {mode: bypass}\n"
        "gates: {tests: {command: ./evil}}\n"
        "not even: a setting\n"
    )
    loaded = place.load(trusted=False)
    expected = Settings.of({"permissions": {"deny": ["curl"], "ask": ["make"]}})
    assert loaded.settings == expected
    (notice,) = loaded.notices
    assert str(place.paths.workspace_dir) in notice
    assert "not trusted" in notice


@pytest.mark.requirement("E36")
@pytest.mark.parametrize(
    ("user", "workspace", "trusted", "expected"),
    [
        (None, None, True, "allow"),
        ("ask", None, True, "ask"),
        ("allow", "ask", False, "ask"),
        (None, "ask", False, "ask"),
        ("ask", "allow", False, "ask"),
        ("ask", "[allow]", False, "ask"),
        ("ask", "allow", True, "allow"),
    ],
)
def test_an_untrusted_workspace_may_have_edits_asked_about_and_never_allow_them(
    place, user, workspace, trusted, expected
):
    if user is not None:
        place.user(f"permissions: {{edits: {user}}}")
    if workspace is not None:
        place.workspace(f"permissions: {{edits: {workspace}}}")
    assert place.load(trusted=trusted).settings.permissions.edits == expected


def test_a_workspace_without_files_gives_no_notice(place):
    assert place.load(trusted=False).notices == ()


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("link", [".prism", ".prism/config.yaml", ".prism/models.yaml"])
def test_workspace_configuration_behind_a_link_is_refused(place, link, trusted):
    path = place.paths.workspace / link
    target = place.folder / "elsewhere"
    if path.is_dir():
        path.rmdir()
        target.mkdir()
        (target / "config.yaml").write_text("")
    path.symlink_to(target)
    with pytest.raises(ConfigError, match="must not be a link"):
        place.load(trusted=trusted)


def test_models_files_hold_models_and_nothing_else(place):
    path = place.user_models("models: {}\nengine: {max_agent_depth: 3}\n")
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert caught.value.message == (
        f"{path}:2: engine does not belong here; models.yaml holds models and model_registry"
    )


def test_each_value_knows_where_it_comes_from(place):
    user = place.user("permissions:\n  deny:\n    - rm\n    - dd\nengine:\n  max_agent_depth: 3\n")
    workspace = place.workspace("permissions:\n  deny: [rm, curl]\n")
    place.environ["PRSM__BUDGETS__TURNS"] = "7"
    loaded = place.load(
        sets=["defaults.model=fast"], overrides={"defaults.mode": "plan", "defaults.cwd": None}
    )
    assert loaded.sources == {
        "permissions.deny[0]": f"{user}:3",
        "permissions.deny[1]": f"{user}:4",
        "permissions.deny[2]": f"{workspace}:2",
        "engine.max_agent_depth": f"{user}:6",
        "budgets.turns": "PRSM__BUDGETS__TURNS",
        "defaults.model": "--set defaults.model",
        "defaults.mode": "the command line",
    }


def test_mcp_servers_under_plugins_are_read_and_the_old_key_is_told(place):
    user = place.user(
        "plugins:\n  disabled: [slow]\n  github: {command: gh-mcp, tags: [git]}\n"
        "mcp_servers:\n  web: {url: 'http://127.0.0.1:1'}\n"
    )
    workspace = place.workspace("plugins: {github: {args: [--stdio]}}")
    loaded = place.load()
    told = "plugins.github is an MCP server: write mcp_servers.github, since plugins is about those"
    assert [text.partition(" of PRSM")[0] for text in loaded.mistakes] == [
        f"{user}:3: {told}",
        f"{workspace}:1: {told}",
    ]
    settings = loaded.settings
    assert settings.plugins.disabled == ("slow",)
    assert set(settings.mcp_servers) == {"github", "web"}
    github = settings.mcp_servers["github"]
    assert (github.command, github.args, github.tags) == ("gh-mcp", ("--stdio",), ("git",))


def test_old_keys_of_a_workspace_that_is_not_trusted_are_not_worth_a_word(place):
    place.workspace("plugins: {github: {command: x}}\nengine: {command_policy: default}\n")
    assert place.load(trusted=False).mistakes == ()


@pytest.mark.parametrize("value", ["default", "strict", "{a: 1}"])
def test_a_key_that_is_gone_is_told_and_has_no_effect(place, value):
    path = place.user(f"engine:\n  command_policy: {value}\n  max_agent_depth: 2\n")
    loaded = place.load(sets=["engine.command_policy=x"])
    assert loaded.settings.engine.max_agent_depth == 2
    why = "the rules of `permissions` and of policy.yaml decide on commands"
    assert loaded.mistakes == (
        f"{path}:2: engine.command_policy has no effect, delete it: {why}",
        f"--set engine.command_policy: engine.command_policy has no effect, delete it: {why}",
    )


def test_one_server_under_both_names_in_one_file_is_an_error(place):
    path = place.user("plugins:\n  web: {command: a}\nmcp_servers:\n  web: {command: b}\n")
    with pytest.raises(ConfigError, match=r"plugins\.web is also in mcp_servers") as caught:
        place.load()
    assert caught.value.message.startswith(f"{path}:2: ")


@pytest.mark.requirement("E43")
def test_all_sections_of_the_specification_are_read(place):
    place.user(
        """
engine: {max_agent_depth: 3, max_concurrent_agents: 4, agent_timeout_seconds: 60,
         tool_timeout_seconds: 30.5, command_policy: default}
providers: {codex: {command: [codex, --flag], own: {key: 1}}}
models: {fast: {provider: codex, model_id: small, reasoning_effort: low,
                max_response_tokens: 500, temperature: 0.5}}
defaults: {model: fast, cwd: /src, peer_model: a, peer_models: [b, a], master_model: big}
experts:
  security: {system_prompt: Look for holes., model: fast, mcp_servers: {cve: {command: cve}}}
plugins: {github: {command: gh-mcp, tags: [git, review]}}
model_registry: {small: {tier: economy, affinities: {coding: 0.4, tool-use: 1}}}
"""
    )
    settings = place.load().settings
    assert settings.engine.max_concurrent_agents == 4
    assert settings.engine.tool_timeout_seconds == 30.5
    assert settings.provider_settings("codex") == {
        "command": ["codex", "--flag"],
        "own": {"key": 1},
    }
    fast = settings.models["fast"]
    assert (fast.reasoning_effort, fast.max_response_tokens, fast.temperature) == ("low", 500, 0.5)
    assert settings.defaults.peers == ("a", "b")
    expert = settings.expert_profiles()["security"]
    assert (expert.expert_id, expert.name, expert.model) == ("security", "security", "fast")
    assert expert.mcp_servers["cve"].command == "cve"
    assert settings.mcp_servers["github"].tags == ("git", "review")
    assert settings.model_registry["small"].affinities == {"coding": 0.4, "tool-use": 1}


def test_two_aliases_of_a_model_cannot_want_different_parameters_of_it(place):
    path = place.user(
        """
models:
  terse: {provider: codex, model_id: m, max_response_tokens: 100, temperature: 0}
  cold: {provider: codex, model_id: m, temperature: 0, reasoning_effort: low}
  other: {provider: claude, model_id: m, max_response_tokens: 200}
  long: {provider: codex, model_id: m, max_response_tokens: 200}
"""
    )
    with pytest.raises(ConfigError, match="models") as caught:
        place.load()
    told = "terse and long are the same model with another max_response_tokens each"
    assert told in caught.value.message
    assert caught.value.message.startswith(f"{path}:2: ")


@pytest.mark.parametrize("wrong", ["temperature: 3", "temperature: -1", "max_response_tokens: 0"])
def test_a_parameter_of_a_model_has_its_bounds(place, wrong):
    place.user(f"models: {{fast: {{provider: codex, model_id: m, {wrong}}}}}\n")
    with pytest.raises(ConfigError, match=r"models\.fast"):
        place.load()


def test_a_provider_that_no_plugin_offers_is_refused_once_the_plugins_are_known(place):
    path = place.user("providers:\n  codx: {}\n")
    assert place.load().settings.provider_settings("codx") == {}
    with pytest.raises(ConfigError) as caught:
        place.load(known_plugins=["codex", "claude"])
    assert caught.value.message == (
        f"{path}:2: providers.codx belongs to no installed plugin; did you mean codex?; "
        "installed: claude, codex"
    )


def test_a_provider_that_an_option_alone_names_is_refused_with_that_option(place):
    with pytest.raises(ConfigError) as caught:
        place.load(sets=["providers.codx.command=[x]"], known_plugins=["codex"])
    assert caught.value.message.startswith("--set providers.codx.command: providers.codx belongs")


def test_a_provider_of_any_name_is_taken_when_its_kind_is_installed(place):
    path = place.user("providers:\n  mine:\n    kind: codx\n")
    assert place.load().settings.provider_settings("mine") == {}
    assert place.load(known_plugins=["codx"]).settings.providers["mine"].kind == "codx"
    with pytest.raises(ConfigError) as caught:
        place.load(known_plugins=["codex", "claude"])
    assert caught.value.message == (
        f"{path}:3: providers.mine.kind: there is no provider 'codx'; did you mean codex?; "
        "installed: claude, codex"
    )


def test_a_file_that_cannot_be_read_is_an_error(place):
    path = place.paths.user_config
    path.symlink_to(path)
    with pytest.raises(ConfigError, match="cannot be read: Too many levels of symbolic links"):
        place.load()


@pytest.mark.requirement("U30")
def test_which_variables_are_passed_on_a_workspace_says_once_it_is_trusted(place):
    place.workspace("pass_env: [DATABASE_URL]\n")
    assert place.load(trusted=True).settings.pass_env == ("DATABASE_URL",)
    assert "DATABASE_URL" not in place.load(trusted=False).settings.pass_env


@pytest.mark.requirement("U30")
@pytest.mark.parametrize("name", ["*", "A B", "*_HOME", "A=1", ""])
def test_what_is_passed_on_is_named_or_the_beginning_of_names(place, name):
    place.user(f"pass_env: [{name!r}]\n")
    with pytest.raises(ConfigError, match="CONDA_\\*"):
        place.load()
