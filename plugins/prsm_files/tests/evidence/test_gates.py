"""Gates as processes: what they print, how long they may take, and that nothing stays behind."""

from __future__ import annotations

import asyncio

import pytest
from prsm_files.session.evidence.evidence import GATE_OUTPUT, SHOWN_LINES, GateRunner

from prsm_core.config.schema import GateSettings
from prsm_core.domain.agents import AgentRole
from prsm_core.engine.processes.launcher import ProcessLauncher, install_child_watcher
from prsm_core.kit.clocks import SystemClock
from tests.engine.hostile import DEADLINE, gone, until

CLOCK = SystemClock()


@pytest.fixture(scope="module", autouse=True)
def _child_watcher():
    """One thread fewer per child on Python 3.11, as a real run has it."""
    install_child_watcher()


@pytest.fixture
async def runner(tmp_path):
    """Make a runner of gates, each given as its settings or as its command alone."""
    async with ProcessLauncher(CLOCK) as launcher:

        def make(env=None, **gates):
            settings = {
                name: GateSettings.of({"command": gate} if isinstance(gate, str) else gate)
                for name, gate in gates.items()
            }
            return GateRunner(
                settings,
                workspace=str(tmp_path),
                launcher=launcher,
                clock=CLOCK,
                env=env or {},
                variables_of=lambda folder: {"PRSM_PORT": "1"} if folder != str(tmp_path) else {},
            )

        yield make


async def test_a_gate_passes_with_exit_code_0_only(runner):
    good, bad = await runner(good="true", bad="echo out; echo err >&2; exit 3").run(
        AgentRole.WORKER
    )
    assert (good.name, good.problem) == ("good", None)
    assert (bad.problem, bad.output) == ("failed with exit code 3", "out\nerr")


async def test_a_gate_runs_in_the_workspace_or_the_folder_it_names(runner, tmp_path):
    (tmp_path / "web").mkdir()
    gates = runner(top="pwd; false", web={"command": "pwd; false", "cwd": "web"})
    top, web = await gates.run({AgentRole.WORKER})
    assert (top.output, web.output) == (str(tmp_path), f"{tmp_path}/web")


async def test_a_gate_is_only_for_the_roles_it_names(runner):
    gates = runner(all="true", workers={"command": "true", "roles": ["worker"]})
    assert [v.name for v in await gates.run({AgentRole.WORKER})] == ["all", "workers"]
    assert [v.name for v in await gates.run({AgentRole.MASTER})] == ["all"]


async def test_a_gate_has_no_secrets_and_no_input(runner):
    gates = runner(
        env={"MY_API_KEY": "s3cret", "PLAIN": "yes", "BASH_ENV": "/x"},
        look="cat; echo $MY_API_KEY$BASH_ENV$PLAIN; false",
    )
    [verdict] = await gates.run({AgentRole.WORKER})
    assert verdict.output == "yes"


async def test_a_gate_that_hangs_is_ended_with_all_it_started(runner):
    gate = {"command": "echo $$; sleep 4321 & wait", "timeout_seconds": 0.5}
    [verdict] = await runner(hangs=gate).run({AgentRole.WORKER})
    assert verdict.problem == "did not end within 0.5 s"
    await gone(int(verdict.output))


async def test_of_a_flood_the_last_lines_are_kept(runner):
    [verdict] = await runner(flood="seq 1 2000000; echo the end; exit 1").run({AgentRole.WORKER})
    lines = verdict.output.splitlines()
    assert (lines[-1], lines[-2], len(lines)) == ("the end", "2000000", SHOWN_LINES)
    [verdict] = await runner(flood="yes | head -c 3000000 | tr -d '\\n'; exit 1").run(
        AgentRole.WORKER
    )
    assert len(verdict.output) == GATE_OUTPUT


async def test_a_gate_that_cannot_run_is_broken(runner):
    [verdict] = await runner(lost={"command": "true", "cwd": "gone"}).run({AgentRole.WORKER})
    assert verdict.is_broken
    assert "there is no folder" in verdict.problem


async def test_gates_of_two_agents_run_one_after_the_other(runner, tmp_path):
    gates = runner(alone="mkdir busy && rmdir busy")
    both = await asyncio.gather(gates.run({AgentRole.WORKER}), gates.run({AgentRole.WORKER}))
    assert [verdict.problem for [verdict] in both] == [None, None]


async def test_a_gate_whose_agent_is_killed_leaves_no_process(runner, tmp_path):
    gates = runner(hangs="echo $$ > pid; sleep 4321")
    running = asyncio.ensure_future(gates.run({AgentRole.WORKER}))
    pid = tmp_path / "pid"
    await until(lambda: pid.exists() and pid.read_text().endswith("\n"), "the gate runs")
    running.cancel()
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(asyncio.CancelledError):
            await running
    await gone(int(pid.read_text()))
    assert [v.name for v in await runner(next="true").run({AgentRole.WORKER})] == ["next"]
