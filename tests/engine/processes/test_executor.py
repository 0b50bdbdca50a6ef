"""The executor of our own, and which one a run has."""

from __future__ import annotations

import pytest
from prsm_sandbox.plugin import prsm_executors

from prsm_core.config import Settings
from prsm_core.domain.boxes import Box
from prsm_core.engine.processes.executor import (
    NO_EXECUTOR,
    CommandSandbox,
    ProgramBoxes,
    choose_executor,
    run_shell,
)
from prsm_core.engine.processes.launcher import ProcessLauncher
from prsm_core.errors import ConfigError, PluginError, ProviderNotAvailableError
from prsm_core.executors import ExecutorSpec
from prsm_core.kit.clocks import SystemClock
from prsm_core.plugins import PluginManager
from prsm_core.plugins.candidate import Candidate
from prsm_core.plugins.records import Key, PluginState, Spec

OTHER = ExecutorSpec(name="other", summary="Another.", factory="other_package:Executor")


SANDBOX = next(iter(prsm_executors()))


def plugins(*specs, state=PluginState.ACTIVE):
    """Return what knows a plugin `sandbox` with these executors, in this state."""
    found: dict[Key, Spec] = {(ExecutorSpec, spec.name): spec for spec in specs}
    plugin = Candidate(name="sandbox", distribution="d", version="1", load=object, specs=found)
    plugin.state = state
    return PluginManager([plugin] if specs or state is not PluginState.ACTIVE else [])


def settings(**sections):
    return Settings.of(sections)


def test_the_configuration_names_one_of_several():
    both = plugins(OTHER, SANDBOX)
    assert choose_executor(both, settings()).spec is SANDBOX
    assert choose_executor(both, settings(sandbox={"executor": "other"})).spec is OTHER


def test_one_that_nobody_has_stops_the_run():
    with pytest.raises(PluginError, match="there is no executor 'none'"):
        choose_executor(plugins(OTHER), settings(sandbox={"executor": "none"}))


def test_one_that_is_broken_stops_the_run():
    with pytest.raises(PluginError, match=r"executor 'sandbox': plugin sandbox .* is broken"):
        choose_executor(plugins(state=PluginState.BROKEN), settings())


@pytest.mark.parametrize(
    "sections", [{"sandbox": {"mode": "require"}}, {"box": {"agents": True}}], ids=str
)
def test_where_there_is_none_what_is_required_stops_the_run(sections):
    with pytest.raises(ConfigError, match="prsm-sandbox is not installed") as caught:
        choose_executor(plugins(OTHER), settings(**sections))
    assert caught.value.hint == "prsm install sandbox"


async def test_where_there_is_none_auto_says_that_commands_run_unconfined(tmp_path, caplog):
    executor = choose_executor(plugins(), settings())
    async with ProcessLauncher(SystemClock()) as launcher:
        sandbox = CommandSandbox(
            settings().sandbox,
            executor=executor,
            workspace=str(tmp_path),
            launcher=launcher,
            state_dir=tmp_path,
        )
        done = await run_shell(
            launcher,
            "echo a",
            cwd=str(tmp_path),
            timeout_s=60,
            clock=SystemClock(),
            sandbox=sandbox,
        )
    assert done.stdout == "a\n"
    assert caplog.messages == [
        "shell commands and gates run unconfined: prsm-sandbox is not installed"
        " (prsm install sandbox)"
    ]


async def test_where_there_is_none_no_program_starts_in_a_box(tmp_path):
    async with ProcessLauncher(SystemClock()) as launcher:
        boxes = ProgramBoxes(launcher, tmp_path, NO_EXECUTOR)
        assert (await boxes.examine()).runtime == ""
        with pytest.raises(ProviderNotAvailableError) as caught:
            await boxes.start(["true"], name="boxed", box=Box())
    assert caught.value.hint == "prsm install sandbox"
