"""Which frontend the launcher chooses."""

from __future__ import annotations

import io

import pytest

from prsm_core.builtin import BUILTINS
from prsm_core.cli.running import choose_frontend
from prsm_core.errors import PluginError
from prsm_core.interfaces.frontend import FrontendSpec
from prsm_core.plugins import PluginManager

CONSOLE = ("console", "prsm_console.plugin")


class Terminal(io.StringIO):
    """A stdin that is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def plugins():
    return PluginManager.load(
        environ={"PRSM_PLUGINS": ""},
        builtins=[*BUILTINS, CONSOLE, ("grand", "tests.cli.grand_plugin")],
    )


def test_on_a_terminal_the_interactive_frontend_of_highest_priority_is_chosen(plugins, monkeypatch):
    monkeypatch.setattr("sys.stdin", Terminal())
    spec = choose_frontend(plugins, None)
    assert (spec.name, spec.interactive) == ("grand", True)
    assert choose_frontend(plugins, "console").name == "console"


def test_without_a_terminal_the_console_is_chosen_and_nobody_is_asked(plugins, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    spec = choose_frontend(plugins, None)
    assert (spec.name, spec.interactive) == ("console", False)


def test_an_answer_given_beforehand_means_that_nobody_is_asked(plugins, monkeypatch):
    monkeypatch.setattr("sys.stdin", Terminal())
    assert choose_frontend(plugins, None, on_ask="deny").interactive is False


def test_the_record_of_a_frontend_is_not_changed_by_the_choice(plugins, monkeypatch):
    monkeypatch.setattr("sys.stdin", Terminal())
    choose_frontend(plugins, None, on_ask="deny")
    assert plugins.get(FrontendSpec, "grand").interactive is True


def load(*plugins, **given):
    builtins = [*BUILTINS, *plugins]
    return PluginManager.load(environ={}, builtins=builtins, entry_points=[], **given)


@pytest.mark.parametrize(
    ("plugins", "told", "cure"),
    [
        (load(), "frontend tui is not installed: the package prsm-tui", "prsm install tui"),
        (load(enabled=False), "there is no frontend 'tui'", "--no-plugins"),
    ],
    ids=["not installed", "switched off"],
)
def test_of_a_frontend_of_our_own_that_is_missing_the_cure_is_told(plugins, told, cure):
    with pytest.raises(PluginError) as caught:
        choose_frontend(plugins, "tui")
    assert told in caught.value.message
    assert cure in str(caught.value.hint)


@pytest.mark.parametrize("name", ["tu", "codex"])
def test_of_any_other_name_is_told_what_there_is(name):
    with pytest.raises(PluginError, match=f"there is no frontend '{name}'") as caught:
        choose_frontend(load(CONSOLE), name)
    assert "installed: console, json" in str(caught.value.hint)


@pytest.mark.parametrize("stdin", [Terminal, io.StringIO])
def test_without_the_console_events_are_printed_and_the_person_is_told(stdin, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", stdin())
    spec = choose_frontend(load(), None)
    assert (spec.name, spec.interactive) == ("json", False)
    assert "`prsm install console` brings it" in capsys.readouterr().err


@pytest.mark.parametrize("enabled", [True, False])
def test_a_console_that_is_asked_for_and_missing_is_named(enabled):
    with pytest.raises(PluginError, match="the package prsm-console brings it") as caught:
        choose_frontend(load(enabled=enabled), "console")
    assert caught.value.hint == "prsm install console"


def test_a_frontend_for_people_stands_in_on_a_terminal_without_the_console(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", Terminal())
    plugins = load(("grand", "tests.cli.grand_plugin"))
    assert choose_frontend(plugins, None).name == "grand"
    assert capsys.readouterr().err == ""
