"""Repeated commands on the real engine and the real broker: what was run, told, and in between."""

from __future__ import annotations

import pytest
from prsm_testing.fake_clock import FakeClock

from prsm_core.config.schema import PermissionSettings
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Allow, PermissionRequest
from prsm_core.domain.turns import ToolCallFinished, cut_result
from prsm_core.engine.tools.table import ToolTable
from prsm_core.kit.clocks import SystemClock
from prsm_core.permissions import PermissionBroker
from tests.command_policies import policy_for
from tests.engine.harness import failed

pytestmark = pytest.mark.requirement("E16")
REPEATED = "this exact command"


class Vendor:
    """An agent whose vendor has a shell and an editor of its own."""

    def __init__(self, agent, team=None):
        self.agent = agent
        self.team = team
        self.calls = 0

    async def shell(self, command, result="1 failed", status="failed", *, asked=True, **told):
        """Run a command, asked for or not; return why it may not run, None if it ran."""
        self.calls += 1
        name, arguments = f"v{self.agent.name}{self.calls}", {"command": command}
        await self.agent.start_tool(name, "Bash", **arguments)
        verdict = await self._ask("Bash", arguments, command) if asked else Allow()
        if not isinstance(verdict, Allow):
            await self.agent.end_tool(name, "denied", None, verdict.reason)
            return verdict.reason
        error, is_whole = told.get("error", "exit code 1"), told.get("whole", True)
        await self.agent.tell(ToolCallFinished(name, status, result, error, is_whole))
        return None

    async def shells(self, command, times, *args, **fields):
        return [await self.shell(command, *args, **fields) for _ in range(times)]

    async def wait(self, seconds):
        await self.agent.session.provider.services.clock.sleep(seconds)

    async def edit(self, tool="Edit", *, asked=True):
        self.calls += 1
        name = f"v{self.agent.name}{self.calls}"
        arguments = {"file_path": "a.py", "content": str(self.calls)}
        if asked:
            await self._ask(tool, arguments, None)
        await self.agent.start_tool(name, tool, **arguments)
        await self.agent.end_tool(name)

    async def _ask(self, tool, arguments, command):
        request = PermissionRequest(
            agent_id=self.agent.id, tool=tool, arguments=arguments, cwd=".", command=command
        )
        return await self.agent.host.authorize(request)


@pytest.fixture
def play(tmp_path, as_master):
    """Let a worker in bypass mode play a script under the real permission function."""

    async def run(script, *, clock=None, others=None, **fields):
        clock, played = clock or FakeClock(), []
        teams: list = []
        broker = PermissionBroker(
            PermissionSettings(),
            checks={},
            orchestration=ToolTable().names,
            commands=policy_for(PermissionSettings()),
            now=clock.now,
        )

        async def worker(agent):
            await script(agent, Vendor(agent, teams[0]))
            played.append(agent.name)
            await agent.complete()

        async def master(agent, opened):
            teams.append(opened)
            await agent.spawn(name="worker")
            await agent.collect()

        options, team = {"mode": PermissionMode.BYPASS}, {"worker": worker, **(others or {})}
        team = await as_master(master, options, team=team, broker=broker, clock=clock, **fields)
        assert played == ["worker"]
        return team

    return run


async def test_ten_rounds_of_edit_and_test_pass(play):
    async def script(_, vendor):
        for asked in [True, False] * 5:
            await vendor.edit(asked=asked)
            assert await vendor.shell("python -m pytest -q") is None

    await play(script)


async def test_the_fourth_time_with_the_same_result_and_nothing_but_looks_between_is_refused(play):
    async def script(agent, vendor):
        for number in range(3):
            assert await vendor.shell("make", f"err, took {number} ms") is None
            assert await vendor.shell("git status", f"{number}", "completed", error=None) is None
            await agent.call("report_progress", status="trying")
        refused = await vendor.shells("make", 3, "err, took 9 ms")
        assert all(reason.startswith(f"{REPEATED} failed with exit code 1") for reason in refused)
        await vendor.edit("Write")
        assert await vendor.shell("make") is None

    await play(script)


@pytest.mark.parametrize(
    "told", [{"result": None}, {"result": cut_result("y" * 70_000)}, {"whole": False}]
)
async def test_a_result_that_was_not_told_in_full_is_never_the_same(play, told):
    async def script(_, vendor):
        assert await vendor.shells("make", 6, **told) == [None] * 6

    await play(script)


async def test_the_vendors_shell_and_run_bash_count_together(play, tmp_path):
    command = "echo out; echo err >&2; exit 3"

    async def script(agent, vendor):
        told = {"result": "err\nout\n", "error": "exit code 3"}
        assert await vendor.shell(command, **told) is None
        assert await vendor.shell(command, "Exit code 3\nout\nerr", error="Exit code 3 out") is None
        assert (await agent.call("run_bash", command=command))["exit_code"] == 3
        assert REPEATED in await vendor.shell(command)
        assert await agent.refused("run_bash", command=command) == "permission_denied"

    await play(script, clock=SystemClock())


async def test_what_run_bash_could_not_tell_in_full_is_never_the_same(play):
    async def script(agent, _):
        for _ in range(5):
            answer = await agent.call("run_bash", command="yes | head -c 100000")
            assert answer["truncated"]

    await play(script, clock=SystemClock())


async def test_a_command_of_run_bash_that_may_change_something_is_a_change(play):
    async def script(agent, vendor):
        for _ in range(5):
            assert await vendor.shell("make") is None
            await agent.call("run_bash", command="touch a.py")
        assert await vendor.shells("make", 3) == [None] * 3
        await agent.call("run_bash", command="cat a.py")
        assert REPEATED in await vendor.shell("make")

    await play(script, clock=SystemClock())


async def test_calls_at_the_same_time_are_let_through_and_count_when_they_have_ended(play):
    async def script(agent, vendor):
        verdicts = []
        for number in range(5):
            await agent.start_tool(f"p{number}", "Bash", command="make")
            request = PermissionRequest(agent_id=agent.id, tool="Bash", cwd=".", command="make")
            verdicts.append(await agent.host.authorize(request))
        assert [type(verdict) for verdict in verdicts] == [Allow] * 5
        for number in range(5):
            await agent.end_tool(f"p{number}", "failed", "1 failed", "exit code 1")
        assert REPEATED in await vendor.shell("make")

    await play(script)


async def test_what_another_agent_did_in_the_tree_is_a_change_and_its_own_count_is_apart(play):
    async def other(agent):
        assert await Vendor(agent).shells("make", 2) == [None] * 2
        await Vendor(agent).edit()
        await agent.complete()

    async def script(agent, vendor):
        assert await vendor.shells("make", 3) == [None] * 3
        assert REPEATED in await vendor.shell("make")
        await agent.spawn(name="other")
        await agent.collect()
        assert await vendor.shell("make") is None

    await play(script, others={"other": other})


async def test_who_looks_every_ten_seconds_may_go_on_and_who_asks_at_once_may_not(play):
    async def script(_, vendor):
        for _ in range(20):
            assert await vendor.shell("curl -s localhost/health", "503") is None
            await vendor.wait(10)
        assert await vendor.shells("curl -s localhost/health", 3, "503") == [None] * 3
        assert REPEATED in await vendor.shell("curl -s localhost/health", "503")

    await play(script)


async def test_a_person_who_says_something_may_have_mended_it(play):
    async def script(agent, vendor):
        assert await vendor.shells("make", 3) == [None] * 3
        assert REPEATED in await vendor.shell("make")
        await vendor.team.engine.prompting.prompt(agent.id, "try again", "queue")
        assert await vendor.shell("make") is None
        await agent.call("wait_for_message")

    await play(script)


async def test_a_run_of_which_no_end_was_told_ends_with_its_turn(play):
    async def script(agent, vendor):
        if agent.turn == 1:
            assert await vendor.shells("make", 2) == [None] * 2
            await agent.start_tool("open", "Bash", command="make")
            request = PermissionRequest(agent_id=agent.id, tool="Bash", cwd=".", command="make")
            assert isinstance(await agent.host.authorize(request), Allow)
            raise failed(retryable=True)
        assert await vendor.shells("make", 3) == [None] * 3
        assert REPEATED in await vendor.shell("make")

    await play(script)
