"""What goes works until its version has come, and each plugin that uses it is told, once."""

from __future__ import annotations

import ast
import itertools
import logging
import re
import sys
import textwrap
import warnings
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import pluggy
import pytest

import prsm_core
from prsm_core import hookspecs
from prsm_core.deprecation import Deprecated, forwards
from prsm_core.errors import PrsmError
from prsm_core.plugins.hooks import brings_checks, implementations
from tests.sources import calls, package_files, where

pytestmark = pytest.mark.requirement("C5")

_numbers = itertools.count()


@pytest.fixture
def old_module():
    """Put a module at an old place, whose `__getattr__` is what `forwards` makes of arguments."""
    made = []

    def make(*args, **kwargs):
        name = f"old_home_{next(_numbers)}"
        module = ModuleType(name)
        module.__getattr__ = forwards(name, *args, goes_in="9.9", **kwargs)  # type: ignore[method-assign]
        sys.modules[name] = module
        made.append(name)
        return name

    yield make
    for name in made:
        del sys.modules[name]


def run(code: str, module: str = "somebody", path: str = "somebody.py") -> dict[str, object]:
    """Run code as the module of a plugin."""
    names: dict[str, object] = {"__name__": module}
    exec(compile(textwrap.dedent(code), path, "exec"), names)  # noqa: S102 - a plugin in two lines
    return names


def told_of(code: str, module: str = "somebody") -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(code, module)
    return [f"{warning.filename}:{warning.lineno}: {warning.message}" for warning in caught]


def test_a_moved_module_gives_what_it_had_and_tells_who_asks_for_it(old_module):
    old = old_module(to="prsm_core.errors")
    with pytest.warns(DeprecationWarning, match="use prsm_core.errors.PrsmError"):
        names = run(f"from {old} import PrsmError as found")
    assert names["found"] is PrsmError


def test_the_warning_has_the_line_of_the_user_the_version_and_the_cure(old_module):
    old = old_module({"Wrong": "prsm_core.errors:PrsmError"})
    told = told_of(f"\n\nimport {old}\nthing = {old}.Wrong\n")
    cure = "goes in prsm-core 9.9: use prsm_core.errors.PrsmError"
    assert told == [f"somebody.py:4: somebody: {old}.Wrong {cure}"]


def test_what_nothing_replaces_is_told_as_that(old_module):
    old = old_module(dropped={"Wrong": "prsm_core.errors:PrsmError"})
    [told] = told_of(f"from {old} import Wrong")
    assert told.endswith(f"{old}.Wrong goes in prsm-core 9.9: nothing takes its place")


@pytest.mark.parametrize("name", ["Nope", "_private", "__all__", "__path__", "annotations_"])
def test_a_name_that_was_never_there_is_an_attribute_error(old_module, name):
    old = old_module(to="prsm_core.errors")
    with pytest.raises(AttributeError, match=f"module '{old}' has no attribute '{name}'"):
        getattr(sys.modules[old], name)
    with pytest.raises(ImportError, match="cannot import name"):
        run(f"from {old} import {name}")


def test_each_user_is_told_once_of_each_name(old_module):
    old = old_module(to="prsm_core.errors")
    both = f"from {old} import PrsmError, ConfigError\nfrom {old} import PrsmError"
    assert len(told_of(both, "one_plugin.sub")) == 2
    assert told_of(both, "one_plugin.other") == []
    assert len(told_of(both, "another_plugin")) == 2


def test_an_author_who_makes_it_an_error_gets_it_each_time(old_module):
    old = old_module(to="prsm_core.errors")
    for _ in range(2):
        with pytest.raises(DeprecationWarning, match="goes in"):
            run(f"from {old} import PrsmError", "strict_plugin")


def test_the_distribution_of_the_plugin_is_named_there_and_in_the_log(site, old_module, caplog):
    old = old_module(to="prsm_core.errors")
    module = site.add("aged", "")
    caplog.set_level(logging.INFO, "prsm.plugins")
    [told] = told_of(f"from {old} import PrsmError", f"{module}.deep.inside")
    assert f": prsm-aged 1.0: {old}.PrsmError goes in" in told
    assert "prsm-aged 1.0: old_home" in caplog.text


def test_a_field_that_goes_is_told_where_its_record_is_made():
    core = run(
        """
        from prsm_core.deprecation import Deprecated, tell

        class Record:
            def __init__(self):
                tell(
                    Deprecated(what="Record.colour", goes_in="9.9", instead="Record.tint"),
                    beyond=__name__,
                )
        """,
        "core_like",
    )
    names = {"__name__": "painter", "Record": core["Record"]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile("\nRecord()", "painter.py", "exec"), names)  # noqa: S102
    [warning] = caught
    assert (warning.filename, warning.lineno) == ("painter.py", 2)
    assert str(warning.message) == ("painter: Record.colour goes in prsm-core 9.9: use Record.tint")


OLD_NAME = "prsm_guards"


class Contract:
    """The hooks of today, and one of yesterday."""

    OLD: ClassVar = {
        OLD_NAME: Deprecated(what=OLD_NAME, goes_in="9.9", instead="prsm_permission_checks"),
    }

    def __getattr__(self, name: str) -> object:
        return getattr(hookspecs, name)

    def __dir__(self) -> list[str]:
        return [*dir(hookspecs), OLD_NAME]

    @staticmethod
    @hookspecs.hookspec
    def prsm_guards() -> None:
        """Contribute permission checks, as they were called once."""


def plugin_with(name: str) -> SimpleNamespace:
    def hook():
        return []

    hook.__module__ = f"plugin_{next(_numbers)}"
    return SimpleNamespace(**{name: pluggy.HookimplMarker("prsm")(hook)})


def test_a_hook_under_its_old_name_is_asked_as_the_new_one_and_told():
    plugin = plugin_with(OLD_NAME)
    with pytest.warns(DeprecationWarning, match="prsm_guards goes in prsm-core 9.9: use prsm_perm"):
        [(hook, function)] = implementations(plugin, "aged", Contract())
    assert (hook, function) == ("prsm_permission_checks", plugin.prsm_guards)


def test_an_old_hook_of_checks_still_says_that_it_brings_some():
    assert brings_checks(plugin_with(OLD_NAME), Contract()) is True


def test_a_hook_that_stays_is_told_to_nobody():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = implementations(plugin_with("prsm_frontends"), "new", Contract())
    assert [hook for hook, _ in found] == ["prsm_frontends"]


def versions() -> list[tuple[str, str]]:
    """Return where something that goes is named, and in which version it goes."""
    found = [
        (where(path, call), str(keyword.value.value))
        for path in package_files()
        for call, _ in calls(path)
        for keyword in call.keywords
        if keyword.arg == "goes_in" and isinstance(keyword.value, ast.Constant)
    ]
    old = prsm_core._OLD_GO_IN if prsm_core._OLD else "9999.0"
    return [*found, ("prsm_core/__init__.py _OLD", old)]


def test_nothing_is_left_that_was_to_go_with_the_version_that_is():
    now = _release(prsm_core.__version__)
    assert not [place for place, version in versions() if _release(version) <= now]


def test_a_version_in_which_something_goes_is_a_minor_one():
    assert all(re.fullmatch(r"\d+\.\d+", version) for _, version in versions())


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
