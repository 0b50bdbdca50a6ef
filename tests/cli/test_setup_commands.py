"""config, trust and plugins: what is in force, where it lies, what is installed."""

import json

import pytest
import yaml

from prsm_core.cli.config import HIDDEN, hide_secrets
from prsm_core.distributions import DEFAULT_PACKAGES
from prsm_core.plugins import plugin_names

DEFAULTS = sorted(name.removeprefix("prsm-") for name in DEFAULT_PACKAGES)


@pytest.fixture
def user_config(tmp_path):
    """Write the user's config.yaml."""

    def write(text):
        path = tmp_path / "home" / "config.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Install a distribution with one plugin module, for this process and its children."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.delenv("PRSM_PLUGINS")
    installed = sorted(plugin_names())  # of the environment; the tests bring their own
    monkeypatch.setenv("PRSM_DISABLED_PLUGINS", ",".join(installed))

    def install(name, source):
        (site / f"plugin_{name}.py").write_text(source)
        info = site / f"dist_{name}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: dist-{name}\nVersion: 1.5\n")
        (info / "entry_points.txt").write_text(f"[prsm]\n{name} = plugin_{name}\n")

    return install


FRONTEND = """
from prsm_core import FrontendSpec, hookimpl

@hookimpl
def prsm_frontends():
    yield FrontendSpec(name="plain", summary="", interactive=False, priority=0, factory="x:y")
"""


@pytest.mark.requirement("C6")
def test_a_broken_plugin_is_listed_with_its_error_and_the_exit_code_is_1(prsm, plugin):
    plugin("good", FRONTEND)
    plugin("bad", "import nothing_like_this\n")
    done = prsm("plugins", "--json")
    assert (done.code, done.err) == (1, "")
    by_name = {row["name"]: row for row in json.loads(done.out)}
    named = ["name", "distribution", "version", "state", "hooks", "error", "records"]
    assert list(by_name["bad"]) == named
    assert (by_name["bad"]["state"], by_name["bad"]["records"]) == ("broken", [])
    assert "nothing_like_this" in by_name["bad"]["error"]
    assert by_name["good"] == {
        "name": "good",
        "distribution": "dist-good",
        "version": "1.5",
        "state": "active",
        "hooks": ["prsm_frontends"],
        "error": None,
        "records": [
            {
                "kind": "frontend",
                "name": "plain",
                "summary": "",
                "interactive": False,
                "priority": 0,
                "factory": "x:y",
                "settings": None,
                "stays": False,
                "scope": "session",
                "section": None,
            }
        ],
    }
    assert by_name["builtin"]["hooks"] == [
        "prsm_event_sinks",
        "prsm_frontends",
        "prsm_model_scorers",
    ]


def test_working_plugins_are_a_table_and_the_exit_code_is_0(prsm, plugin):
    plugin("good", FRONTEND)
    done = prsm("plugins")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].split() == ["NAME", "DISTRIBUTION", "VERSION", "STATE", "HOOKS", "ERROR"]
    assert any(line.split()[:4] == ["good", "dist-good", "1.5", "active"] for line in lines)
    columns = {
        line.index(word)
        for line in lines
        for word in ("DIST", "prsm-core", "dist-")
        if word in line
    }
    assert len(columns) == 1


def test_without_plugins_only_the_built_in_ones_are_loaded(prsm, plugin):
    plugin("bad", "import nothing_like_this\n")
    done = prsm("--no-plugins", "plugins", "--json")
    assert done.code == 0
    assert [row["name"] for row in json.loads(done.out)] == ["builtin", *DEFAULTS]


def test_a_plugin_that_the_configuration_disables_is_not_imported(prsm, plugin, user_config):
    plugin("bad", "raise SystemExit('imported')\n")
    user_config("plugins: {disabled: [bad]}\n")
    done = prsm("plugins", "--json")
    assert done.code == 0
    assert {row["name"]: row["state"] for row in json.loads(done.out)}["bad"] == "disabled"


def test_config_show_prints_what_files_environment_and_flags_say(prsm, user_config, monkeypatch):
    user_config("engine: {max_agent_depth: 3, max_concurrent_agents: 4, retry_attempts: 1}\n")
    monkeypatch.setenv("PRSM__ENGINE__MAX_CONCURRENT_AGENTS", "7")
    done = prsm("config", "show", "--json", "--set", "engine.retry_attempts=2")
    assert (done.code, done.err) == (0, "")
    engine = json.loads(done.out)["engine"]
    assert (
        engine["max_agent_depth"],
        engine["max_concurrent_agents"],
        engine["retry_attempts"],
    ) == (3, 7, 2)
    as_yaml = prsm("config", "show", "--set", "engine.retry_attempts=2").out
    assert yaml.safe_load(as_yaml) == json.loads(done.out)


def test_config_show_prints_no_secret(prsm, user_config, plugin):
    plugin("good", FRONTEND)
    user_config("""
mcp_servers:
  web: {url: "https://joe:s3cret@host/x", headers: {Authorization: Bearer s3cret}}
  run: {command: x, env: {TOKEN: s3cret}}
""")
    for args in ((), ("--json",)):
        done = prsm("config", "show", *args)
        assert done.code == 0
        assert "s3cret" not in done.out
        assert "Authorization" in done.out


def test_secrets_are_hidden_by_place_and_by_name():
    shown = hide_secrets(
        {
            "api_key": "x",
            "api_key_env": "NAME",
            "access_token": "x",
            "tokens": 5,
            "profiles": [{"name": "a", "env": {"API_KEY": "MY_KEY"}}],
            "args": ["--url", "http://u:p@h/"],
            "env": {"A": "x"},
        }
    )
    assert shown == {
        "api_key": HIDDEN,
        "api_key_env": "NAME",
        "access_token": HIDDEN,
        "tokens": 5,
        "profiles": [{"name": "a", "env": {"API_KEY": "MY_KEY"}}],
        "args": ["--url", f"http://{HIDDEN}@h/"],
        "env": {"A": HIDDEN},
    }


def test_a_wrong_configuration_names_file_and_line_and_exits_with_2(prsm, user_config):
    path = user_config("engine:\n  max_agent_dept: 3\n")
    done = prsm("config", "show")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"prsm: {path}:2: engine.max_agent_dept is not a setting")


def test_a_provider_without_a_plugin_is_refused_unless_plugins_are_off(prsm, user_config):
    user_config("providers: {nobody: {command: x}}\n")
    assert prsm("config", "show").code == 2
    assert prsm("--no-plugins", "config", "show").code == 0


def test_config_path_tells_the_four_places(prsm, workspace, tmp_path):
    done = prsm("config", "path", "--json")
    assert (done.code, done.err) == (0, "")
    places = json.loads(done.out)
    home = tmp_path / "home"
    assert places["user"] == str(home / "config.yaml")
    assert places["workspace"] == str(workspace / ".prism" / "config.yaml")
    assert places["data"] == str(home / "data")
    assert places["ledger"].startswith(str(home / "data" / "ledgers" / "work-"))
    assert list(places) == ["user", "workspace", "data", "ledger"]
    assert places["ledger"] in prsm("config", "path").out
    assert not home.exists()


def test_config_schema_is_a_json_schema(prsm):
    done = prsm("config", "schema")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["additionalProperties"] is False


def test_a_workspace_counts_only_once_it_is_trusted(prsm, workspace):
    (workspace / ".prism").mkdir()
    (workspace / ".prism" / "config.yaml").write_text("engine: {max_agent_depth: 2}\n")

    def depth():
        done = prsm("config", "show", "--json")
        return json.loads(done.out)["engine"]["max_agent_depth"], done.err

    before, note = depth()
    assert before == 5
    assert note.startswith("prsm: note: ")
    assert "is not trusted" in note
    done = prsm("trust", "--yes")
    assert done.code == 0
    assert "engine.max_agent_depth = 2" in done.out
    assert "trusted as sha256:" in done.out
    assert depth() == (2, "")
    assert "no longer trusted" in prsm("trust", "--revoke").out
    assert "was not trusted" in prsm("trust", "--revoke").out
    assert depth()[0] == 5
