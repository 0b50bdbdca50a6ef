"""An abort signal: what it does to a run before, during and after, and what is left behind."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace
from prsm_testing.doubles import until

from prsm_core.engine.door.local import LocalApp
from prsm_core.errors import ConfigError, RunAbortedError
from prsm_core.interfaces.frontend import RunOptions
from tests.engine.door.scenes import remote_scene
from tests.engine.harness import SESSION

pytestmark = pytest.mark.requirement("N5")


def app_of(team, **fields):
    return LocalApp(team.engine, RunOptions(provider="script", **fields), team.store, SESSION)


async def hang(agent):
    await agent.begin_to_say("I have half an")
    await agent.hang()


async def test_a_signal_set_while_it_runs_interrupts_the_run_and_keeps_what_was_said(opened):
    abort = asyncio.Event()
    async with opened() as team:

        async def master(agent):
            await agent.spawn(name="a")
            await agent.begin_to_say("I have half an")
            await agent.hang()

        team.provider.behaviours.update(master=master, a=hang)
        run = await app_of(team).runs.start("x", abort_signal=abort)
        await until(lambda: team.provider.contexts["a"])
        await team.seen("turn_started", "a")
        abort.set()
        abort.set()  # twice is once
        result = await run.result()
        assert (result.status, result.exit_code) == ("interrupted", 130)
        assert {team[name].state.value for name in ("master", "a")} == {"killed"}
        ends = team.ledger.events("turn_finished")
        assert {end["stop_reason"] for end in ends} == {"aborted"}
        texts = [said["text"] for said in team.ledger.events("message_completed")]
        assert "I have half an" in texts
        [context] = team.provider.contexts["master"]
        assert (context.abort_signal, context.run_id) == (abort, run.run_id)
        assert context.timeout_ms == 7_200_000
        team.ledger.check()


async def test_the_commands_of_an_aborted_run_are_ended_with_it(opened):
    abort = asyncio.Event()
    async with opened() as team:

        async def worker(agent):
            command = "echo $$ > pid; exec sleep 1000"
            await agent.call("run_bash", command=command)

        async def master(agent):
            await agent.spawn(name="w")
            await agent.hang()

        team.provider.behaviours.update(master=master, w=worker)
        run = await app_of(team).runs.start("x", abort_signal=abort)
        written = Path(team.workspace) / "pid"
        await until(lambda: written.is_file() and written.read_text().strip())
        command = Path("/proc") / written.read_text().strip()
        assert command.exists()
        abort.set()
        assert (await run.result()).status == "interrupted"
        await until(lambda: not command.exists())


@pytest.mark.parametrize("continues", [False, True])
async def test_a_signal_set_before_keeps_the_run_from_starting_and_nothing_is_written(
    opened, continues
):
    abort = asyncio.Event()
    async with opened() as team:
        app = app_of(team, abort_signal=abort)
        if continues:
            await (await app.runs.start("first")).result()
        before = team.ledger.events()
        opened_before = len(team.provider.requests["master"])
        abort.set()
        begin = app.runs.follow_up if continues else app.runs.start
        with pytest.raises(RunAbortedError) as refused:
            await begin("x")
        assert (refused.value.code, refused.value.exit_code) == ("aborted", 130)
        assert team.ledger.events() == before
        assert len(team.provider.requests["master"]) == opened_before
        again = await app.runs.start("y", abort_signal=None)
        assert (await again.result()).status == "completed"


async def test_a_signal_set_while_the_run_is_prepared_keeps_it_from_starting(opened):
    abort = asyncio.Event()
    async with opened() as team:
        probe = team.provider.probe

        async def probed():
            abort.set()
            return await probe()

        team.provider.probe = probed
        with pytest.raises(RunAbortedError):
            await app_of(team).runs.start("x", abort_signal=abort)
        assert team.ledger.events() == []


async def test_a_signal_set_after_the_end_changes_nothing(opened):
    abort = asyncio.Event()
    async with opened() as team:
        app = app_of(team)
        run = await app.runs.start("x", abort_signal=abort)
        assert (await run.result()).status == "completed"
        team.provider.behaviours["m1"] = hang
        other = await app.runs.start("y")
        await team.seen("turn_started", "m1")
        abort.set()  # of the run before
        assert (await run.result()).status == "completed"
        assert team.engine.is_running
        await app.runs.interrupt()
        assert (await other.result()).status == "interrupted"
        assert [one.abort_signal for one in team.provider.contexts["m1"]] == [None]


async def test_a_run_that_ends_as_it_is_aborted_keeps_its_own_end(opened):
    abort = asyncio.Event()
    async with opened() as team:

        async def master(agent):
            await agent.complete("done")
            abort.set()

        team.provider.behaviours["master"] = master
        run = await app_of(team).runs.start("x", abort_signal=abort)
        assert ((await run.result()).status, abort.is_set()) == ("completed", True)


async def test_a_signal_of_the_options_holds_for_a_follow_up_too(opened):
    abort = asyncio.Event()
    async with opened() as team:
        app = app_of(team, abort_signal=abort)
        await (await app.runs.start("x")).result()
        team.provider.behaviours["master"] = hang
        run = await app.runs.follow_up("more")
        await until(lambda: len(team.provider.contexts["master"]) == 2)
        abort.set()
        assert (await run.result()).status == "interrupted"


async def test_a_signal_of_a_start_that_goes_on_with_the_last_master_is_heeded_too(opened):
    abort = asyncio.Event()
    async with opened() as team:
        app = app_of(team)
        await (await app.runs.start("x")).result()
        team.provider.behaviours["master"] = hang
        app.runs.options = replace(app.options, continues=True)
        run = await app.runs.start("more", abort_signal=abort)
        await until(lambda: len(team.provider.contexts["master"]) == 2)
        abort.set()
        assert (await run.result()).status == "interrupted"
        assert app.options.abort_signal is None  # it was of the one run


async def test_a_signal_that_breaks_is_told_and_the_run_goes_on(opened):
    class Broken:
        def is_set(self):
            return False

        async def wait(self):
            raise OSError("the wire is cut")

    async with opened() as team:

        async def master(agent):
            await team.seen("notice", level="error")
            await agent.complete()

        team.provider.behaviours["master"] = master
        run = await app_of(team).runs.start("x", abort_signal=Broken())
        assert (await run.result()).status == "completed"
        [told] = [one["text"] for one in team.ledger.events("notice")]
        assert told == "the abort signal: OSError: the wire is cut"


async def test_a_run_without_a_signal_has_no_task_that_waits_for_one(opened):
    names: list[str] = []
    async with opened() as team:

        async def master(agent):
            names.extend(task.get_name() for task in asyncio.all_tasks())
            await agent.complete()

        team.provider.behaviours["master"] = master
        await (await app_of(team).runs.start("x")).result()
    assert "the abort signal" not in names
    assert names


async def test_a_run_of_another_process_refuses_a_signal_rather_than_ignoring_it(tmp_path):
    async with remote_scene(tmp_path) as scene:
        with pytest.raises(ConfigError, match="has no abort_signal of its own"):
            await scene.app.runs.start("x", abort_signal=asyncio.Event())
