"""Plugins are found, asked once, and quarantined whole when anything is wrong with them."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading

import pytest

from prsm_core import (
    EventSinkSpec,
    FrontendSpec,
    ModelScorerSpec,
    PermissionCheckSpec,
    PluginError,
    ProviderSpec,
    ToolContribution,
)
from prsm_core.distributions import PARTS
from prsm_core.domain.turns import Notice
from prsm_core.plugins import PluginState, load_object
from tests.site_folder import provider

KINDS = (
    *(ProviderSpec, PermissionCheckSpec, ModelScorerSpec, EventSinkSpec, FrontendSpec),
    ToolContribution,
)


def states(manager):
    return {record.name: record.state.value for record in manager.records}


def error_of(manager, name):
    (found,) = [record.error for record in manager.records if record.name == name]
    return found


@pytest.mark.requirement("C1")
def test_one_plugin_may_contribute_all_six_kinds(site):
    site.add(
        "all",
        """
        async def check(request, context): ...
        @hookimpl
        def prsm_providers():
            yield ProviderSpec(name="p", summary="", factory="json:loads")
        @hookimpl
        def prsm_permission_checks():
            yield PermissionCheckSpec(name="c", summary="", priority=1, check=check)
        @hookimpl
        def prsm_model_scorers():
            return [ModelScorerSpec(name="m", summary="", weight=1, score="json:dumps")]
        @hookimpl
        def prsm_event_sinks():
            yield EventSinkSpec(name="s", summary="", factory="json.decoder:JSONDecoder.decode")
        @hookimpl
        def prsm_frontends():
            yield FrontendSpec(name="f", summary="", interactive=True, priority=1, factory="a:b")
        @hookimpl
        def prsm_tools():
            yield ToolContribution(
                name="t", summary="", description="", arguments=Struct,
                roles=frozenset({"master"}), handler="a:b", when="a:b",
            )
        """,
    )
    manager = site.load()
    (record,) = manager.records
    assert (record.name, str(record), record.state) == ("all", "prsm-all 1.0", "active")
    assert len(record.hooks) == 6
    specs = {kind: manager.collect(kind) for kind in KINDS}
    assert [list(found) for found in specs.values()] == [["p"], ["c"], ["m"], ["s"], ["f"], ["t"]]
    for kind, found in specs.items():
        for name, spec in found.items():
            assert manager.get(kind, name) is spec
            assert manager.owner_of(spec) == record
    assert manager.implementation(specs[ProviderSpec]["p"]) is json.loads
    assert manager.implementation(specs[ModelScorerSpec]["m"]) is json.dumps
    assert manager.implementation(specs[EventSinkSpec]["s"]) is json.decoder.JSONDecoder.decode
    assert manager.implementation(specs[PermissionCheckSpec]["c"]).__name__ == "check"


def test_records_come_in_order_of_name(site):
    for name in ("zeta", "alpha", "mid"):
        site.add(name, provider(f"{name}-provider"))
    manager = site.load(builtins=[site.builtin("last", provider("b"))])
    assert list(manager.collect(ProviderSpec)) == [
        "alpha-provider",
        "b",
        "mid-provider",
        "zeta-provider",
    ]
    assert [record.name for record in manager.records] == ["alpha", "last", "mid", "zeta"]


@pytest.mark.parametrize("group", sorted(PARTS))
def test_a_plugin_without_hooks_is_active_where_its_package_brings_parts_without_one(site, group):
    site.add("parts", "")
    [info] = site.folder.glob("*.dist-info")
    with (info / "entry_points.txt").open("a") as file:
        file.write(f"[{group}]\nx = y:z\n")
    [record] = site.load().records
    assert (record.state, record.hooks) == ("active", ())


# What may be wrong with a plugin: its code, what becomes of it, and a part of the error.
WRONG = {
    "cannot be imported": ("import no_such_module", "broken", "No module named 'no_such_module'"),
    "is no Python": ("def (:", "broken", "SyntaxError"),
    "raises at import": ("raise RuntimeError('boom')", "broken", "RuntimeError: boom"),
    "exits at import": ("raise SystemExit(3)", "broken", "SystemExit: 3"),
    "raises a BaseException": ("class X(BaseException): ...\nraise X('no')", "broken", "X: no"),
    "implements nothing": ("", "broken", "implements no hook"),
    "forgets the mark": (
        provider("x") + "\ndef prsm_frontends(): ...",
        "broken",
        "prsm_frontends is not marked with @hookimpl",
    ),
    "raises in a hook": (
        provider("x") + "\n@hookimpl\ndef prsm_frontends():\n    raise KeyError('k')",
        "broken",
        "KeyError: 'k'",
    ),
    "raises within a generator": (provider("x") + "    1 / 0", "broken", "ZeroDivisionError"),
    "exits in a hook": (
        "@hookimpl\ndef prsm_providers():\n    raise SystemExit",
        "broken",
        "SystemExit",
    ),
    "gives another kind": (
        provider("x").replace("prsm_providers", "prsm_frontends"),
        "broken",
        "prsm_frontends gave a ProviderSpec, not a FrontendSpec",
    ),
    "gives no record": (
        "@hookimpl\ndef prsm_providers():\n    return ['echo']",
        "broken",
        "prsm_providers gave a str, not a ProviderSpec",
    ),
    "gives nothing to iterate": (
        "@hookimpl\ndef prsm_providers():\n    return None",
        "broken",
        "TypeError: 'NoneType' object is not iterable",
    ),
    "is async": (
        "@hookimpl\nasync def prsm_providers():\n    return []",
        "broken",
        "prsm_providers is async",
    ),
    "gives a bad name": (provider("Not A Name"), "broken", "ValueError: provider: 'Not A Name'"),
    "gives a name twice": (provider("x", "x"), "broken", "provider 'x' is registered twice"),
    "knows another hook": (
        provider("x") + "\n@hookimpl\ndef prsm_provider():\n    return []",
        "incompatible",
        "there is no hook 'prsm_provider'; did you mean 'prsm_providers'?",
    ),
    "wants another argument": (
        "@hookimpl\ndef prsm_providers(engine):\n    return []",
        "incompatible",
        "engine",
    ),
    "is a wrapper": (
        "@hookimpl(wrapper=True)\ndef prsm_providers():\n    return (yield)",
        "incompatible",
        "prsm_providers is a wrapper",
    ),
}


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("fault", WRONG)
def test_a_plugin_that(site, fault):
    code, state, message = WRONG[fault]
    site.add("bad", code)
    site.add("good", provider("good"))
    manager = site.load()
    assert states(manager) == {"bad": state, "good": "active"}
    assert message in error_of(manager, "bad")
    assert "\n" not in error_of(manager, "bad")
    assert [list(manager.collect(kind)) for kind in KINDS] == [["good"], [], [], [], [], []]


def test_a_plugin_may_implement_a_hook_of_a_later_version_if_it_says_so(site):
    code = "\n@hookimpl(optionalhook=True)\ndef prsm_later():\n    return []"
    site.add("modern", provider("x") + code)
    manager = site.load()
    assert states(manager) == {"modern": "active"}
    assert manager.records[0].hooks == ("prsm_providers",)


def test_ctrl_c_is_nobodys_fault(site):
    go = threading.Event()
    sys.modules["go"] = go  # type: ignore[assignment]
    site.modules.append("go")
    site.add("slow", "import go, os, signal\nos.kill(os.getpid(), signal.SIGINT)\ngo.wait()")
    with pytest.raises(KeyboardInterrupt):
        site.load()
    go.set()


def test_a_keyboard_interrupt_that_a_plugin_raises_is_its_fault(site):
    site.add("cross", "raise KeyboardInterrupt")
    assert states(site.load()) == {"cross": "broken"}


@pytest.mark.requirement("C6")
def test_asking_for_a_broken_plugin_raises_its_own_error(site):
    site.add("echo", "import no_such_module")
    with pytest.raises(PluginError, match=r"plugin echo \(prsm-echo 1\.0\) is broken") as caught:
        site.load().get(ProviderSpec, "echo")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    assert caught.value.exit_code == 2


def test_asking_for_what_a_broken_plugin_had_contributed_raises_its_own_error(site):
    site.add("bad", provider("mine") + "    1 / 0")
    manager = site.load()
    with pytest.raises(PluginError, match=r"provider 'mine': plugin bad .* is broken") as caught:
        manager.get(ProviderSpec, "mine")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_asking_for_an_unknown_name_tells_the_nearest_and_all(site):
    site.add("codex", provider("codex"))
    site.add("claude", provider("claude"))
    with pytest.raises(PluginError) as caught:
        site.load().get(ProviderSpec, "codx")
    assert caught.value.message == "there is no provider 'codx'; did you mean 'codex'?"
    assert caught.value.hint == "installed: claude, codex"


@pytest.mark.requirement("C6")
def test_of_two_plugins_with_one_record_name_neither_wins(site):
    site.add("one", provider("same"), version="1.5")
    site.add("two", provider("same"), version="2.5")
    site.add("three", provider("other"))
    manager = site.load()
    assert states(manager) == {"one": "broken", "two": "broken", "three": "active"}
    expected = "provider 'same' is registered by prsm-one 1.5 and prsm-two 2.5"
    assert error_of(manager, "one") == error_of(manager, "two") == expected
    with pytest.raises(PluginError, match=expected):
        manager.get(ProviderSpec, "same")


@pytest.mark.requirement("C6")
def test_of_two_distributions_with_one_plugin_name_neither_is_imported(site):
    modules = [
        site.add("same", provider("a"), distribution="first"),
        site.add("same", provider("b"), distribution="second"),
    ]
    manager = site.load()
    assert [record.state for record in manager.records] == ["broken", "broken"]
    assert manager.records[0].error == "plugin 'same' is registered by first 1.0 and second 1.0"
    assert not set(modules) & set(sys.modules)


def test_a_built_in_plugin_keeps_its_name_and_takes_no_third_one_down(site):
    core = site.builtin("core", provider("json"))
    site.add("rival", provider("json", "x"))
    site.add("third", provider("x"))
    manager = site.load(builtins=[core])
    assert states(manager) == {"core": "active", "rival": "broken", "third": "active"}
    assert manager.owner_of(manager.get(ProviderSpec, "json")).name == "core"
    assert manager.owner_of(manager.get(ProviderSpec, "x")).name == "third"
    assert "is registered by prsm-core" in error_of(manager, "rival")


def test_a_list_means_the_installed_plugin_where_a_built_in_one_has_the_same_name(site):
    core = site.builtin("core", provider("json"))
    site.add("core", provider("x"))
    manager = site.load({"PRSM_DISABLED_PLUGINS": "core"}, builtins=[core])
    assert [(record.distribution, record.state) for record in manager.records] == [
        ("prsm-core", "active"),
        ("prsm-core", "disabled"),
    ]
    assert list(manager.collect(ProviderSpec)) == ["json"]


def test_what_is_left_out_by_the_command_line_is_disabled_and_no_quarantine(site):
    module = site.add("bad", "raise RuntimeError('boom')")
    manager = site.load(without=["bad", "bat"])
    assert error_of(manager, "bad") == "disabled by --without-plugin"
    assert (manager.quarantined, module in sys.modules) == ((), False)
    text = "--without-plugin: there is no plugin 'bat'; did you mean 'bad'?"
    assert manager.notices == (Notice("warning", text),)


CHECK = """
async def check(request, context):
    return None
@hookimpl
def prsm_permission_checks():
    yield PermissionCheckSpec(name={!r}, summary="", priority=1, check=check)
"""
OF_NO_USE = "@hookimpl\ndef prsm_event_sinks():\n    return [1]\n"
# What became of a plugin's import: its code, and whether it is known to bring permission checks.
LOST = {
    "the hook of its checks fails": ("@hookimpl\ndef prsm_permission_checks():\n    boom", True),
    "another hook fails before": (f"{CHECK.format('a')}{OF_NO_USE}", True),
    "its checks are not marked": ("def prsm_permission_checks():\n    return []", True),
    "its checks go by another name": (
        f"{OF_NO_USE}@hookimpl(specname='prsm_permission_checks')\ndef guard():\n    return []",
        True,
    ),
    "its hook is misspelt": ("@hookimpl\ndef prsm_permission_check():\n    return []", True),
    "a check comes from another hook": (
        CHECK.format("a").replace("prsm_permission_checks", "prsm_providers"),
        True,
    ),
    "a check is given twice": (CHECK.format("a") + "    yield from [None]", True),
    "the hook of its command policy fails": (
        "@hookimpl\ndef prsm_command_policies():\n    boom",
        True,
    ),
    "it cannot be imported": (f"{CHECK.format('a')}\nboom", None),
    "it has a hook of a later core": ("@hookimpl\ndef prsm_zones():\n    return []", None),
    "it brings other things alone": (OF_NO_USE, False),
    "it brings nothing": ("x = 1", False),
}


@pytest.mark.requirement("C6", "F12")
@pytest.mark.parametrize("fault", LOST)
def test_it_is_known_whether_checks_are_lost_where(site, fault):
    code, brings = LOST[fault]
    site.add("bad", code)
    (record,) = site.load().quarantined
    assert record.brings_checks is brings
    said = {
        True: "; its permission checks are missing",
        None: "; permission checks may be missing: it did not come far enough to say",
        False: "",
    }
    assert record.fault == f"{record.error}{said[brings]}"


@pytest.mark.requirement("C6", "F12")
def test_two_plugins_with_one_check_lose_it_both_and_this_is_known(site):
    site.add("one", CHECK.format("same"))
    site.add("two", CHECK.format("same"))
    manager = site.load()
    assert [(r.name, r.brings_checks) for r in manager.quarantined] == [
        ("one", True),
        ("two", True),
    ]


def test_a_plugin_that_was_never_imported_cannot_say_whether_it_brings_checks(site):
    site.add("old", CHECK.format("a"), requires=["prsm-core<0.1"])
    site.add("same", CHECK.format("b"), distribution="first")
    site.add("same", CHECK.format("c"), distribution="second")
    manager = site.load()
    assert [record.brings_checks for record in manager.quarantined] == [None, None, None]


@pytest.mark.parametrize(
    ("environ", "options"),
    [
        ({"PRSM_PLUGINS": ""}, {}),
        ({"PRSM_DISABLED_PLUGINS": "bad"}, {}),
        ({}, {"disabled": ["bad"]}),
        ({}, {"without": ["bad"]}),
        ({}, {"enabled": False}),
    ],
)
def test_a_plugin_that_somebody_left_out_is_in_no_quarantine(site, environ, options):
    site.add("bad", f"{CHECK.format('a')}{OF_NO_USE}")
    assert site.load(environ, **options).quarantined == ()


@pytest.mark.parametrize(
    ("environ", "options", "active"),
    [
        ({}, {}, {"a", "b", "core"}),
        ({"PRSM_PLUGINS": "a"}, {}, {"a", "core"}),
        ({"PRSM_PLUGINS": ""}, {}, {"core"}),
        ({"PRSM_PLUGINS": "a,b", "PRSM_DISABLED_PLUGINS": " a "}, {}, {"b", "core"}),
        ({"PRSM_DISABLED_PLUGINS": "a,core"}, {}, {"b"}),
        ({"PRSM_DISABLED_PLUGINS": ""}, {"disabled": ["b"]}, {"a", "core"}),
        ({}, {"enabled": False}, {"core"}),
    ],
)
def test_lists_and_the_switch_decide_what_is_imported(site, environ, options, active):
    modules = {name: site.add(name, provider(name)) for name in ("a", "b")}
    core = site.builtin("core", provider("c"))
    modules.update([core])
    manager = site.load(environ, builtins=[core], **options)
    found = {record.name for record in manager.records if record.state is PluginState.ACTIVE}
    assert found == active
    assert {name for name, module in modules.items() if module in sys.modules} == active
    assert manager.notices == ()


def test_asking_for_what_a_plugin_may_have_tells_that_plugins_are_switched_off(site):
    site.add("echo", provider("echo"))
    with pytest.raises(PluginError, match="there is no provider 'echo'") as caught:
        site.load(enabled=False).get(ProviderSpec, "echo")
    assert "plugins are switched off: leave out --no-plugins" in str(caught.value.hint)


def test_asking_for_a_disabled_plugin_tells_what_disabled_it(site):
    site.add("echo", provider("echo"))
    manager = site.load({"PRSM_DISABLED_PLUGINS": "echo"})
    with pytest.raises(PluginError, match="is disabled: disabled by PRSM_DISABLED_PLUGINS"):
        manager.get(ProviderSpec, "echo")


def test_a_name_on_a_list_that_no_plugin_has_is_told(site):
    site.add("codex", provider("codex"))
    lists = {"PRSM_DISABLED_PLUGINS": "codx", "PRSM_PLUGINS": "codex,gone"}
    manager = site.load(lists, disabled=["nothing"], without=["never"])
    assert [(notice.text, notice.once) for notice in manager.notices] == [
        ("PRSM_PLUGINS: there is no plugin 'gone'", False),
        ("plugins.disabled: there is no plugin 'nothing'", True),
        ("PRSM_DISABLED_PLUGINS: there is no plugin 'codx'; did you mean 'codex'?", False),
        ("--without-plugin: there is no plugin 'never'", False),
    ]


@pytest.mark.requirement("C6")
@pytest.mark.parametrize(
    "requirement", ["prsm-core<0.1", "prsm_core (>=9,<10)", "PRSM.core[x] >=0.1, <0.1"]
)
def test_a_plugin_for_another_version_of_the_core_is_not_imported(site, requirement):
    module = site.add("old", provider("old"), requires=["click", requirement])
    manager = site.load()
    assert states(manager) == {"old": "incompatible"}
    assert error_of(manager, "old").startswith("needs prsm-core ")
    assert module not in sys.modules


@pytest.mark.parametrize(
    "requirement",
    ["prsm-core", "prsm-core>=0.1,<99", "prsm-core<0; extra == 'x'", "prsm-core-extras<0"],
)
def test_a_pin_that_holds_or_is_not_on_the_core_is_no_fault(site, requirement):
    site.add("fine", provider("fine"), requires=[requirement])
    assert states(site.load()) == {"fine": "active"}


@pytest.mark.parametrize("reference", ["no.such:thing", "json:nothing", "json", ":x", "json:"])
def test_an_import_string_that_leads_nowhere_names_the_plugin(reference):
    with pytest.raises(PluginError, match="plugin echo: "):
        load_object(reference, plugin="echo")


def test_an_implementation_that_exits_at_import_is_an_error_of_its_plugin(site):
    module = site.add("late", "raise SystemExit(1)")
    with pytest.raises(PluginError, match="SystemExit: 1") as caught:
        load_object(f"{module}:x", plugin="late")
    assert isinstance(caught.value.__cause__, SystemExit)
    assert load_object(len, plugin="late") is len


def test_the_trace_tells_what_was_done_with_each_plugin(site, caplog):
    site.add("echo", provider("echo-provider"))
    site.add("bad", "raise RuntimeError('boom')")
    caplog.set_level(logging.INFO, "prsm_core.plugins")
    site.load()
    assert not caplog.messages
    site.load({"PRSM_TRACE_PLUGINS": "1"})
    assert caplog.messages == [
        "bad (prsm-bad 1.0): RuntimeError: boom",
        "echo (prsm-echo 1.0): active",
        "provider echo-provider from echo (prsm-echo 1.0)",
    ]


def run(folder, code):
    """Run code in a fresh interpreter that finds the distributions of a folder."""
    script = f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.requirement("C6")
def test_installed_plugins_are_found_by_their_entry_points(site):
    site.add("zz-good", provider("zz-good"))
    site.add("aa-bad", "raise SystemExit(9)")
    code = """
import json, os
from msgspec.structs import asdict
from prsm_core.plugins import PluginManager
environ = {"PRSM_PLUGINS": "aa-bad,zz-good"}
print(json.dumps([asdict(r) for r in PluginManager.load(environ=environ).records]))
"""
    found = {row["name"]: row for row in run(site.folder, code)}
    assert found["zz-good"] == {
        "name": "zz-good",
        "distribution": "prsm-zz-good",
        "version": "1.0",
        "state": "active",
        "hooks": ["prsm_providers"],
        "error": None,
        "brings_checks": False,
    }
    assert (found["aa-bad"]["state"], found["aa-bad"]["error"]) == ("broken", "SystemExit: 9")


def test_listing_names_imports_no_plugin_and_the_module_nothing_heavy(site):
    module = site.add("zz-named", "raise RuntimeError('never imported')")
    code = f"""
import json
from prsm_core.plugins import plugin_names
heavy = {{"pydantic", "yaml", "asyncio", "sqlite3", "importlib.metadata"}} & set(sys.modules)
print(json.dumps(["zz-named" in plugin_names(), {module!r} in sys.modules, sorted(heavy)]))
"""
    assert run(site.folder, code) == [True, False, []]
