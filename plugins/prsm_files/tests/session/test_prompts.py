"""Snapshots before prompts: of the files as they were, named in the ledger, in nobody's way."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from prsm_files.session.session_files import BESIDE_SECONDS, LATEST_SECONDS
from prsm_files.shadow.acts import Intent
from prsm_files.shadow.opening import Shadows
from prsm_files.shadow.records import About
from prsm_files.shadow.whereabouts import INTENT, place_of
from prsm_testing.fake_clock import FakeClock

from prsm_core.domain.permissions import Allow, PermissionRequest
from prsm_core.engine.door.local import LocalApp
from prsm_core.engine.quiet import QUIET_SECONDS
from prsm_core.errors import ConfigError, ProcessError
from prsm_core.interfaces.frontend import RunOptions
from prsm_core.store import SqliteStore
from prsm_core.workspace.identity import repo_identity
from tests.engine.harness import DEADLINE, SESSION, failed

pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]


@pytest.fixture
def kept(opened, tmp_path):
    """Open a team whose prompts are kept with the files of `workspace`."""

    return partial(opened, shadows=Shadows(state=tmp_path / "state", data=tmp_path / "data"))


async def write(agent, path, text):
    """Write a file as a vendor's tool does, once it is allowed to."""
    call = f"w{path}{text}"
    request = PermissionRequest(
        agent_id=agent.id, tool="Write", paths=(path,), cwd=".", command="echo x", call_id=call
    )
    assert isinstance(await agent.host.authorize(request), Allow)
    await agent.start_tool(call, "Write", file_path=path)
    Path(path).write_text(text)  # noqa: ASYNC240 - at once
    await agent.end_tool(call)


def git_in(folder, *args):
    who = ("-c", "user.name=n", "-c", "user.email=e@x")
    subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True)


async def files_of(team, snapshot):
    """Return what the files of a snapshot hold."""

    def look(shadow):
        found = next(one for one in shadow.snapshots() if one.id == snapshot.snapshot_id)
        root = shadow.root("")
        names = root.shadow.run("ls-tree", "-r", "--name-only", found.main.tree).decode().split()
        return {
            name: root.shadow.run("cat-file", "blob", f"{found.main.tree}:{name}").decode()
            for name in names
        }

    return await team.engine.files.keeper.use(team.workspace, look)


async def state_of(team):
    async with await SqliteStore.open(team.ledger.path, read_only=True) as store:
        return await store.state(SESSION)


async def test_the_files_are_kept_before_the_first_write_of_a_run(kept):
    async def master(agent):
        await write(agent, str(team.workspace / "a"), "new")
        await agent.complete()

    async with kept() as team:
        (team.workspace / "a").write_text("old")
        assert (await team.run("change a\nplease", master=master)).exit_code == 0
        (one,) = (await state_of(team)).snapshots
        assert await files_of(team, one) == {"a": "old"}
    assert (one.kind, one.agent_id, one.last_commit) == ("run", None, 0)
    assert (one.description, one.unquiet) == ("change a", ())
    [told] = team.ledger.events("snapshot_taken")
    assert (told["snapshot"], told["tree"]) == (one.snapshot_id, one.tree)


async def test_a_run_that_writes_nothing_waits_for_none(kept):
    async def master(agent):
        hold = team.engine.quiet.close_gate()  # whoever waited for a snapshot would wait for ever
        await agent.complete()
        hold.release()

    async with kept() as team:
        assert (await team.run("look", master=master)).exit_code == 0


async def step_on(clock, agent, is_over):
    """Do something every 0.2 seconds."""
    while not is_over():
        await agent.call("get_budget")
        await clock.sleep(0.2)
    await agent.complete()


async def test_a_run_that_goes_from_step_to_step_is_over_before_one_is_begun(kept, monkeypatch):
    clock, begun = FakeClock(autojump=False), []

    async def master(agent):
        await step_on(clock, agent, lambda: clock.now() > LATEST_SECONDS / 2)

    async with kept(clock=clock) as team:
        keeper = team.engine.files.keeper
        attempt = keeper.attempt

        async def told_attempt(*given):
            begun.append(given)
            return await attempt(*given)

        monkeypatch.setattr(keeper, "attempt", told_attempt)
        running = team.start("count", master=master)
        async with asyncio.timeout(DEADLINE):
            while not running.done():
                await team.settled()
                await clock.advance(0.1)
    assert begun == []


async def test_a_run_that_goes_on_from_step_to_step_has_one_taken_all_the_same(kept):
    clock, taken = FakeClock(autojump=False), asyncio.Event()

    async def master(agent):
        await step_on(clock, agent, taken.is_set)

    async with kept(clock=clock) as team:
        running = team.start("count", master=master)
        async with asyncio.timeout(DEADLINE):
            while not running.done():
                await team.settled()
                if team.ledger.events("snapshot_taken"):
                    taken.set()
                await clock.advance(0.1)


async def test_a_run_that_waits_takes_one_meanwhile(kept):
    clock, taken = FakeClock(autojump=False), asyncio.Event()

    async def master(agent):
        await taken.wait()
        await agent.complete()

    async with kept(clock=clock) as team:
        running = team.start("think", master=master)
        await team.seen("turn_started")
        for _ in range(2):
            await team.settled()
            await clock.advance(BESIDE_SECONDS)
        await team.seen("snapshot_taken")
        taken.set()
        assert (await running).exit_code == 0


async def test_a_prompt_to_an_agent_is_kept_with_the_commit_before_it(kept):
    said = asyncio.Event()

    async def master(agent):
        await write(agent, str(team.workspace / "a"), "one")
        await said.wait()
        await write(agent, str(team.workspace / "a"), "two")
        await agent.call("wait_for_message")
        await agent.complete()

    async with kept() as team:
        running = team.start("begin", master=master)
        await team.seen("tool_call_finished")
        await team.seen("snapshot_taken")  # it is named beside what the call does, or after it
        record = team.manager.roster.resolve("master")
        await team.engine.prompting.prompt(record.agent_id, "go on", "queue")
        said.set()
        assert (await running).exit_code == 0
        state = await state_of(team)
        first, second = state.snapshots
        assert await files_of(team, first) == {}
        assert await files_of(team, second) == {"a": "one"}
    assert (second.kind, second.agent_id) == ("prompt", record.agent_id)
    async with await SqliteStore.open(team.ledger.path, read_only=True) as store:
        before = await store.state(SESSION, second.last_commit)
        assert before.unread == ()
        after = [one async for one in store.events(SESSION, after=before.seq)]
    place = next(
        number
        for number, event in enumerate(after)
        if event.type == "message_routed" and event.data["kind"] == "user_prompt"
    )
    # What the call has changed may be found just then.
    assert {event.type for event in after[:place]} <= {"file_changed"}


async def test_a_prompt_is_kept_with_what_is_being_written_as_it_comes(kept, monkeypatch):
    """The ledger has it, and whoever reads there may have read it; the engine hears of it later."""
    told, said = asyncio.Event(), asyncio.Event()

    async def master(agent):
        await agent.say("what the person has read")
        await said.wait()
        await write(agent, str(team.workspace / "a"), "one")
        await agent.call("wait_for_message")
        await agent.complete()

    async with kept() as team:
        append = team.store.append

        async def tell_late(events):
            written = await append(events)
            if any(event.data.get("role") == "assistant" for event in written):
                await told.wait()
            return written

        monkeypatch.setattr(team.store, "append", tell_late)
        running = team.start("begin", master=master)
        read = await team.seen("message_completed", role="assistant")
        record = team.manager.roster.resolve("master")
        prompt = team.engine.prompting.prompt(record.agent_id, "go on", "queue")
        prompting = asyncio.ensure_future(prompt)
        await asyncio.sleep(0)  # it goes as far as it can
        told.set()
        await prompting
        said.set()
        assert (await running).exit_code == 0
        [kept_with] = [one for one in (await state_of(team)).snapshots if one.kind == "prompt"]
    async with await SqliteStore.open(team.ledger.path, read_only=True) as store:
        assert (await store.state(SESSION, kept_with.last_commit)).seq == read.seq


async def test_a_snapshot_is_named_once_although_the_next_one_is_taken_meanwhile(kept, monkeypatch):
    said, both_taken, known = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def master(agent):
        await write(agent, str(team.workspace / "a"), "one")
        await said.wait()
        await write(agent, str(team.workspace / "a"), "two")
        await agent.call("wait_for_message")
        await agent.complete()

    async with kept() as team:
        read, secure, reads, taken = team.store.state, team.engine.files.keeper.secure, [], []

        async def read_late(*given):
            reads.append(given)
            state = await read(*given)
            if len(reads) == 1:
                await known.wait()
            return state

        def secured(folder):
            taken.append(folder)
            if len(taken) == 2:
                both_taken.set()
            return secure(folder)

        monkeypatch.setattr(team.store, "state", read_late)
        monkeypatch.setattr(team.engine.files.keeper, "secure", secured)
        running = team.start("begin", master=master)
        await team.seen("tool_call_finished")
        record = team.manager.roster.resolve("master")
        await team.engine.prompting.prompt(record.agent_id, "go on", "queue")
        said.set()
        async with asyncio.timeout(DEADLINE):
            await both_taken.wait()
        await team.settled()
        known.set()
        assert (await running).exit_code == 0
        state = await state_of(team)
    assert [one.kind for one in state.snapshots] == ["run", "prompt"]
    named = [one["snapshot"] for one in team.ledger.events("snapshot_taken")]
    assert named == [one.snapshot_id for one in state.snapshots]


async def test_where_nothing_changed_the_same_snapshot_is_named_again(kept):
    async def master(agent):
        await write(agent, str(team.workspace / "same"), "")
        await agent.complete()

    async with kept() as team:
        (team.workspace / "same").write_text("")
        await team.run("one", master=master)
        record = team.manager.roster.resolve("master")
        await team.engine.run_continuation("two", record.agent_id)
        first, second = (await state_of(team)).snapshots
        assert first.snapshot_id == second.snapshot_id
        assert first.last_commit < second.last_commit
        assert [one.description for one in (first, second)] == ["one", "two"]
        found = await team.engine.files.keeper.use(
            team.workspace, lambda shadow: shadow.snapshots()
        )
        assert len(found) == 1


async def test_what_git_throws_away_of_a_snapshot_is_taken_in_once_another_is_taken(kept):
    async def master(agent):
        await write(agent, str(team.workspace / "b"), "b\n")
        await agent.complete()

    async with kept() as team:
        git = partial(git_in, team.workspace)
        git("init", "-q")
        (team.workspace / "a").write_text("a\n")
        git("add", "-A")
        git("commit", "-q", "-m", "first")
        await team.run("one", master=master)
        (team.workspace / "a").write_text("another\n")
        git("commit", "-q", "--amend", "-a", "-m", "amended")
        record = team.manager.roster.resolve("master")
        await team.engine.run_continuation("two", record.agent_id)
        first, _ = (await state_of(team)).snapshots
        await team.engine.files.keeper.use(
            team.workspace, lambda _: None
        )  # what was begun has ended
        git("reflog", "expire", "--expire=now", "--all")
        git("gc", "-q", "--prune=now")
        assert await files_of(team, first) == {"a": "a\n"}
    assert not [one for one in team.ledger.events("notice") if "git throws away" in one["text"]]


async def test_a_snapshot_that_a_person_takes_meanwhile_has_others_taken_in_too(kept):
    async with kept() as team:
        git = partial(git_in, team.workspace)
        app = LocalApp(team.engine, RunOptions(), team.store, SESSION)
        git("init", "-q")
        (team.workspace / "a").write_text("a\n")
        git("add", "-A")
        git("commit", "-q", "-m", "first")
        first = await app.snapshots.take("one")
        (team.workspace / "a").write_text("another\n")
        git("commit", "-q", "--amend", "-a", "-m", "amended")
        await app.snapshots.take("two")
        git("reflog", "expire", "--expire=now", "--all")
        git("gc", "-q", "--prune=now")
        taken = SimpleNamespace(snapshot_id=first.id)
        assert await files_of(team, taken) == {"a": "a\n"}


async def test_a_call_that_goes_on_makes_the_snapshot_unquiet_and_is_named(kept):
    clock, taken = FakeClock(autojump=False), asyncio.Event()

    async def master(agent):
        await agent.start_tool("v1", "Write", file_path="a")  # it never asks
        await taken.wait()
        await agent.end_tool("v1")
        await agent.complete()

    async with kept(clock=clock) as team:
        running = team.start("begin", master=master)
        async with asyncio.timeout(DEADLINE):
            while not team.engine.quiet.running:
                await team.settled()
        await clock.advance(QUIET_SECONDS)
        told = await team.seen("snapshot_taken")
        taken.set()
        assert (await running).exit_code == 0
    assert told.data["unquiet"] == ["master: Write"]
    state = await state_of(team)
    assert [one.unquiet for one in state.snapshots] == [("master: Write",)]


async def test_what_was_never_said_is_not_kept(kept):
    async with kept() as team:
        with pytest.raises(ConfigError, match="unsayable"):
            async with team.engine.files.before("x", str(team.workspace), None):
                raise ConfigError("unsayable")
        assert team.engine.quiet._holds == []
        assert not (team.workspace.parent / "state" / "shadows").exists()


async def test_a_snapshot_that_a_dead_engine_took_and_never_named_is_named(kept, tmp_path):
    async def master(agent):
        await write(agent, str(team.workspace / "b"), "")
        await agent.complete()

    async with kept() as team:
        lost = await team.engine.files.keeper.use(
            team.workspace,
            lambda shadow: shadow.take(About(kind="run", session=SESSION, position=0)),
        )
        (team.workspace / "a").write_text("")
        await team.run("go on", master=master)
    state = await state_of(team)
    named, _ = state.snapshots
    assert named.snapshot_id == lost.id


async def test_git_that_is_missing_is_told_and_the_run_goes_on(kept, monkeypatch, tmp_path):
    bash = shutil.which("bash") or "bash"
    (tmp_path / "bin").mkdir()
    os.symlink(bash, tmp_path / "bin" / "bash")  # noqa: PTH211
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    async def master(agent):
        await write(agent, str(team.workspace / "a"), "new")
        await agent.complete()

    async with kept() as team:
        assert (await team.run("go", master=master)).exit_code == 0
    notices = [one["text"] for one in team.ledger.events("notice")]
    assert [text for text in notices if "git cannot be started" in text]
    assert (await state_of(team)).snapshots == ()


async def test_a_run_that_fails_at_once_leaves_no_gate_closed(kept):
    async def master(agent):
        raise failed()

    async with kept() as team:
        await team.run("go", master=master)
        assert team.engine.quiet._holds == []


@pytest.mark.parametrize("snapshots", ["auto", "off"])
async def test_a_restore_that_was_cut_off_is_finished_before_a_run_begins(
    kept, tmp_path, snapshots
):
    seen = []

    async def master(agent):
        seen.append((team.workspace / "a").read_text())
        await agent.complete()

    def cut_off(shadow):
        (shadow.folder / "a").write_text("old")
        target = shadow.take()
        (shadow.folder / "a").write_text("new")
        safety = shadow.take(About(kind="safety"))
        shadow.journal.begin(Intent(target.id, safety.id, 1.0))

    async with kept(settings={"workspace": {"snapshots": snapshots}}) as team:
        await team.engine.files.keeper.use(team.workspace, cut_off)
        assert (await team.run("go", master=master)).exit_code == 0
        assert await team.engine.files.keeper.use(
            team.workspace, lambda shadow: shadow.journal.intent() is None
        )
    assert seen == ["old"]
    told = [one["text"] for one in team.ledger.events("notice")]
    assert [one for one in told if "that was cut off is finished" in one]


async def test_a_restore_that_cannot_be_finished_lets_no_run_begin(kept, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))  # there is no git
    async with kept(check=False) as team:
        place = place_of(repo_identity(team.workspace), tmp_path / "state")
        (place / "roots" / "main").mkdir(parents=True)
        (place / INTENT).write_text('{"target": "a", "safety": "b", "begun_at": 1.0}')
        with pytest.raises(ProcessError, match="git cannot be started"):
            await team.engine.run("go")
        assert not team.engine.is_running
        assert (place / INTENT).exists()
    assert not team.ledger.events("run_started")
