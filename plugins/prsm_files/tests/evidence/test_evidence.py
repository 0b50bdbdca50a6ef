"""Results of real agents: claimed, checked or verified, and what is said of what does not hold."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from prsm_core.engine.processes.launcher import install_child_watcher
from prsm_core.kit.clocks import SystemClock
from tests.engine.hostile import gone, until

RETRY = "mend it, then call task_complete again"


@pytest.fixture(scope="module", autouse=True)
def _child_watcher():
    """One thread fewer per child on Python 3.11, as a real run has it."""
    install_child_watcher()


class LaterClock(SystemClock):
    """An hour ahead of the kernel: every file is from before the agents began."""

    def time(self):
        return super().time() + 3600


def write(agent, *files):
    for name in files:
        Path(agent.session.request.cwd, name).write_text(f"by {agent.name}")


def works(summary="done", files=("made.py",), before=None, check="pytest", **claim):
    """Return the behaviour of an agent that makes files, checks and claims them."""

    async def behave(agent):
        write(agent, *files)
        if before is not None:
            await before(agent)
        if check:
            await shell(agent, check, "check")
        claim.setdefault("artifacts", list(files))
        agent.memory["answer"] = await agent.outcome("task_complete", {"summary": summary, **claim})

    return behave


async def run_child(team, child, **others):
    """Run a master with one child, a; return the child's result as the master is told it."""
    told = []

    async def master(agent):
        await agent.spawn(name="a")
        for _ in others:
            await agent.spawn(name="b")
        told.extend(await agent.collect(1 + len(others)))
        await agent.complete()

    result = await team.run("do it", master=master, a=child, **others)
    assert result.status == "completed", result
    return next(message for message in told if message["name"] == "a")


async def shell(agent, command, call_id="v1", exit_code=0, **end):
    await agent.start_tool(call_id, "Bash", command=command)
    await agent.end_tool(call_id, exit_code=exit_code, **end)


@pytest.mark.requirement("U13")
async def test_an_agent_that_names_nothing_has_claimed(team):
    told = await run_child(team, works(files=(), artifacts=[], check=None))
    assert told["evidence"] == "claimed"
    assert "evidence_gaps" not in told


@pytest.mark.requirement("U13", "F9")
async def test_files_that_are_there_and_new_are_checked_and_everybody_is_told(team):
    child = works(before=lambda agent: shell(agent, "make"), commands=["make"])
    told = await run_child(team, child)
    assert told["evidence"] == "checked"
    assert team.provider.memory[team["a"].agent_id]["answer"].data["evidence"] == "checked"
    end = team.ledger.events("agent_state_changed", "a")[-1]
    assert (end["to"], end["evidence"], end["evidence_gaps"]) == ("completed", "checked", [])
    [row] = [row for row in await team.store.agents("session") if row.descriptor.name == "a"]
    assert (row.result.evidence, row.result.evidence_gaps) == ("checked", ())


@pytest.mark.requirement("U13")
async def test_what_a_run_s_master_has_shown_is_in_the_run_s_result(team):
    result = await team.run("do it", master=works())
    assert result.evidence == "checked"
    assert team.ledger.events("run_finished")[0]["evidence"] == "checked"


@pytest.mark.parametrize(
    ("claim", "gap"),
    [
        ({"artifacts": ["gone.py"]}, "'gone.py' does not exist"),
        ({"artifacts": ["made.py", "../ledger.db"]}, "'../ledger.db' is outside"),
        ({"artifacts": ["link"]}, "'link' is outside"),
        ({"artifacts": ["."]}, "'.' is a folder"),
        ({"commands": ["make"]}, "`make` was not run"),
        ({"commands": ["echo hi", "make"]}, "`make` was not run"),
        ({"commands": ["make it"]}, "`make it` did not succeed"),
        ({"commands": ["echo no; exit 3"]}, "`echo no; exit 3` did not succeed"),
        ({"commands": ["make all"]}, "`make all` ended, but its exit code is not known"),
    ],
)
@pytest.mark.requirement("U13", "F9")
async def test_a_claim_that_does_not_hold_is_taken_and_said_to_be_no_more(team, claim, gap):
    (team.workspace / "link").symlink_to("../ledger.db")

    async def before(agent):
        await shell(agent, "make it", exit_code=2, status="failed", error="exit code 2")
        await shell(agent, "make all", "v2", exit_code=None)
        await agent.call("run_bash", command="echo hi")
        await agent.call("run_bash", command="echo no; exit 3")

    told = await run_child(team, works(before=before, **claim))
    assert (told["success"], told["evidence"]) == (True, "claimed")
    [found] = told["evidence_gaps"]
    assert found.startswith(gap)


async def test_commands_of_the_vendor_s_shell_and_of_run_bash_count(team):
    async def before(agent):
        await shell(agent, "make test")
        await agent.call("run_bash", command="echo hi")

    told = await run_child(team, works(before=before, commands=["make test", "echo hi"]))
    assert told["evidence"] == "checked"


async def test_a_command_of_another_agent_does_not_count(team):
    async def b(agent):
        await agent.call("run_bash", command="echo hi")
        await agent.complete()
        team.b_has_run.set()

    team.b_has_run = asyncio.Event()
    child = works(before=lambda _: team.b_has_run.wait(), commands=["echo hi"])
    told = await run_child(team, child, b=b)
    assert told["evidence_gaps"] == ["`echo hi` was not run"]


@pytest.mark.requirement("U13", "F9")
async def test_what_agents_below_it_ran_counts_and_is_told_by_whom(team):
    async def b(agent):
        await shell(agent, "make deep")
        await agent.complete()

    async def a(agent):
        await shell(agent, "make test", exit_code=None)
        await agent.call("run_bash", command="echo hi")
        await agent.spawn(name="b")
        await agent.collect()
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        claimed = ["echo hi", "make deep", "make test", "make"]
        await works(commands=claimed, files=("made.py",))(agent)

    result = await team.run("do it", master=master, a=a, b=b)
    assert (result.status, result.evidence) == ("completed", "claimed")
    end = team.ledger.events("agent_state_changed", "master")[-1]
    assert end["evidence_by"] == ["`echo hi` was run by a", "`make deep` was run by a/b"]
    unsure = "`make test` ended, but its exit code is not known, run by a"
    assert end["evidence_gaps"] == [unsure, "`make` was not run"]


@pytest.mark.requirement("U13", "F9")
async def test_a_master_whose_team_ran_the_commands_is_checked(team):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        await works(files=(), artifacts=[], commands=["make"])(agent)

    async def a(agent):
        await shell(agent, "make")
        await agent.complete()

    result = await team.run("do it", master=master, a=a)
    assert (result.status, result.evidence) == ("completed", "checked")
    told = team.provider.memory[team["master"].agent_id]["answer"].data
    assert told["evidence_by"] == ["`make` was run by a"]


async def test_what_a_team_ran_in_an_earlier_life_does_not_count(team):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        await agent.call("restart_child", child_id="a", prompt="again")
        [told] = await agent.collect()
        assert told["evidence_gaps"] == ["`make` was not run"]
        await agent.complete()

    async def a(agent):
        if agent.turn == 1:
            await agent.spawn(name="b")
            await agent.collect()
        await works(commands=["make"])(agent)

    async def b(agent):
        await shell(agent, "make")
        await agent.complete()

    assert (await team.run("do it", master=master, a=a, b=b)).status == "completed"


async def test_a_command_of_an_earlier_life_does_not_count(team):
    async def master(agent):
        await agent.spawn(name="a")
        await agent.collect()
        await agent.call("restart_child", child_id="a", prompt="again")
        [told] = await agent.collect()
        assert told["evidence_gaps"] == ["`echo hi` was not run"]
        await agent.complete()

    async def a(agent):
        if agent.turn == 1:
            await agent.call("run_bash", command="echo hi")
        await works(commands=["echo hi"])(agent)

    assert (await team.run("do it", master=master, a=a)).status == "completed"
    assert team["a"].incarnation == 2


async def test_a_file_of_before_is_not_the_agent_s(opened):
    async with opened(clock=LaterClock()) as team:
        told = await run_child(team, works())
    assert told["evidence_gaps"] == ["'made.py' was not changed since the agent began"]


async def test_a_file_written_as_git_had_it_is_not_changed(team):
    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        date = {"GIT_COMMITTER_DATE": "@1000000000 +0000"}
        env = {"PATH": os.environ["PATH"], "HOME": str(team.workspace), **date}
        subprocess.run(
            ["git", "-C", str(team.workspace), *identity, *arguments], check=True, env=env
        )

    (team.workspace / "made.py").write_text("by a")
    (team.workspace / "other.py").write_text("by nobody")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "before")
    told = await run_child(team, works(files=("made.py", "other.py", "new.py")))
    assert told["evidence_gaps"] == ["'made.py' is as it was before the agent began"]


async def test_evidence_waits_with_the_result_for_the_last_child(team):
    async def master(agent):
        await agent.spawn(name="a")
        await works()(agent)

    result = await team.run("do it", master=master)
    assert (result.status, result.evidence) == ("completed", "checked")


def gates(command, **settings):
    return {"gates": {"tests": {"command": command, **settings}}}


@pytest.mark.requirement("U13", "F9")
async def test_a_result_that_passed_its_gate_is_verified(opened):
    async with opened(settings=gates("test -f made.py")) as team:
        told = await run_child(team, works())
        assert told["evidence"] == "verified"
        [end] = team.ledger.events("gate_finished")
        assert (end["gate"], end["problem"], end["required"]) == ("tests", None, True)


async def test_a_gate_does_not_make_up_for_a_claim_that_does_not_hold(opened):
    async with opened(settings=gates("true")) as team:
        told = await run_child(team, works(artifacts=["made.py", "gone.py"]))
    assert (told["evidence"], len(told["evidence_gaps"])) == ("claimed", 1)


@pytest.mark.requirement("U13", "F9")
async def test_a_failing_gate_sends_the_agent_back_with_its_last_lines(opened):
    async def a(agent):
        await works()(agent)
        refusal = agent.memory["answer"]
        error = refusal.data["error"]
        assert (refusal.is_error, error["code"], error["hint"]) == (True, "gate_failed", RETRY)
        assert "gate tests failed with exit code 1; it prints:\n> no good.py" in error["message"]
        await works(files=("made.py", "good.py"))(agent)

    async with opened(settings=gates("test -f good.py || { echo no good.py; exit 1; }")) as team:
        told = await run_child(team, a)
        assert told["evidence"] == "verified"
        [notice] = team.ledger.events("notice", "a")
        assert notice["text"] == "gate tests failed with exit code 1 for a"


@pytest.mark.requirement("F9")
async def test_after_its_last_try_a_result_is_taken_and_names_the_gate(opened):
    async def a(agent):
        claim = {"summary": "done", "artifacts": ["made.py"]}
        write(agent, "made.py")
        for _ in range(2):
            assert await agent.refused("task_complete", **claim) == "gate_failed"
        await agent.call("task_complete", **claim)

    async with opened(settings=gates("exit 7")) as team:
        told = await run_child(team, a)
    assert told["evidence"] == "claimed"
    assert told["evidence_gaps"] == ["gate tests failed with exit code 7"]


async def test_how_often_an_agent_is_sent_back_is_a_setting(opened):
    async with opened(engine={"gate_refusals": 0}, settings=gates("exit 7")) as team:
        told = await run_child(team, works())
    assert told["evidence_gaps"] == ["gate tests failed with exit code 7"]


async def test_a_gate_that_cannot_run_is_not_the_agent_s_fault(opened):
    async with opened(settings=gates("true", cwd="gone")) as team:
        told = await run_child(team, works())
    assert told["evidence"] == "claimed"
    assert "gate tests could not run" in told["evidence_gaps"][0]


async def test_a_gate_that_hangs_has_failed(opened):
    async with opened(
        engine={"gate_refusals": 0}, settings=gates("sleep 4321", timeout_seconds=0.3)
    ) as team:
        told = await run_child(team, works())
    assert told["evidence_gaps"] == ["gate tests did not end within 0.3 s"]


async def test_a_gate_for_other_roles_is_not_run(opened):
    async with opened(settings=gates("false", roles=["master"])) as team:
        assert (await run_child(team, works()))["evidence"] == "checked"


@pytest.mark.requirement("F9")
async def test_killing_an_agent_ends_the_gate_that_runs_for_it(opened):
    async with opened(settings=gates("echo $$ > pid; sleep 4321")) as team:

        async def master(agent):
            await agent.spawn(name="a")
            await agent.collect()
            await agent.complete()

        run = team.start("do it", master=master, a=works())
        pid = team.workspace / "pid"
        await until(lambda: pid.exists() and pid.read_text().endswith("\n"), "the gate runs")
        await team.manager.kill_agent(team["a"].agent_id)
        await gone(int(pid.read_text()))
        assert (await run).status == "completed"
        assert team["a"].result.error_kind == "killed"


async def test_an_instruction_that_comes_while_a_gate_runs_is_not_lost(opened):
    async with opened(settings=gates("touch ran; while [ ! -e go ]; do sleep 0.01; done")) as team:

        async def master(agent):
            await agent.spawn(name="a")
            ran = team.workspace / "ran"
            await until(ran.exists, "the gate runs")
            await agent.call("send_child_prompt", child_id="a", prompt="one thing more")
            (team.workspace / "go").touch()
            [agent.memory["told"]] = await agent.collect()
            await agent.complete()

        async def a(agent):
            await works()(agent)
            assert agent.memory["answer"].data["error"]["code"] == "unread_prompt"
            assert (await agent.call("wait_for_message"))["text"] == "one thing more"
            await works()(agent)

        assert (await team.run("do it", master=master, a=a)).status == "completed"
        assert team["a"].result.evidence == "verified"
