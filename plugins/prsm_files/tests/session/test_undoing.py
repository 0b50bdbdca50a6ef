"""Changes.undo and take_snapshot over an engine that keeps files."""

from __future__ import annotations

import asyncio
import shutil
from functools import partial
from typing import Any

import pytest
from prsm_files.session.taking_back import find_prompt
from prsm_files.shadow.opening import Shadows
from prsm_files.shadow.worktree import Shadow

from prsm_core.domain.permissions import Allow, PermissionRequest
from prsm_core.door import ChangedFile
from prsm_core.engine.door.local import LocalApp
from prsm_core.errors import ConfigError
from prsm_core.interfaces.frontend import RunOptions
from tests.engine.harness import SESSION, open_team

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def opened(tmp_path):
    shadows = Shadows(state=tmp_path / "state", data=tmp_path / "data")
    return partial(open_team, tmp_path, shadows=shadows, on_ask="allow")


def door(team):
    return LocalApp(team.engine, RunOptions(provider="script"), team.store, SESSION)


async def write(agent, team, name, text):
    """Write a file as a vendor's tool does, once it is allowed to."""
    path = team.workspace / name
    request = PermissionRequest(
        agent_id=agent.id,
        tool="Write",
        arguments={"file_path": str(path), "content": text},
        paths=(str(path),),
        cwd=".",
        call_id=f"w-{name}-{text}",
    )
    assert isinstance(await agent.host.authorize(request), Allow)
    await agent.start_tool(f"w-{name}-{text}", "Write", file_path=str(path))
    path.write_text(text)
    await agent.end_tool(f"w-{name}-{text}")


@pytest.mark.requirement("U2")
async def test_an_engine_without_a_run_takes_a_prompt_back_and_its_session_stays(opened):
    async def first(agent):
        await write(agent, team, "a", "one")
        await agent.complete()

    async def second(agent):
        await write(agent, team, "a", "two")
        await agent.complete()

    async with opened(check=False) as team:  # what is decided after a run comes behind its end
        app = door(team)
        assert (await team.run("begin", master=first)).status == "completed"
        before = (await team.store.state(SESSION)).seq
        team.provider.behaviours["master"] = second
        run = await app.runs.follow_up("go on")
        assert (await run.result()).status == "completed"
        made = await app.changes.undo()
        assert (team.workspace / "a").read_text() == "one"
        assert (made.origin, made.prompt, made.files) == (SESSION, "go on", 1)
        forked = await team.store.state(made.session)
        assert (forked.origins[-1].session_id, forked.origins[-1].seq) == (SESSION, before)
        assert (await team.store.sessions())[0].session_id == made.session
        again = await app.changes.undo("act")
        assert (again.restored, (team.workspace / "a").read_text()) == (made.snapshot, "two")
        assert again.session == SESSION == (await team.store.sessions())[0].session_id
        decided = (await app.changes.undo("turn")).decided
        assert [(one.path, one.state) for one in decided] == [("a", "rejected")]
        assert (team.workspace / "a").read_text() == "one"
        only = await app.changes.undo("prompt", "1", conversation=False)
        assert only.session is None
        talk = await app.changes.undo("prompt", made.restored, files=False)
        assert talk.snapshot is None
        assert {talk.session, made.session} < {
            one.session_id for one in await team.store.sessions()
        }


async def test_a_person_takes_a_snapshot_while_an_agent_works_and_undoes_nothing(opened):
    async def master(agent):
        async with asyncio.timeout(20):
            await write(agent, team, "a", "one")
            told["taken"] = await door(team).snapshots.take("so far")
            for what, code in (("prompt", "run_open"), ("act", "nothing_to_undo")):
                with pytest.raises(ConfigError) as refused:
                    await door(team).changes.undo(what)
                assert refused.value.code == code
        await agent.complete()

    told: dict[str, Any] = {}
    async with opened() as team:
        assert (await team.run("begin", master=master)).status == "completed"
        rows = await door(team).snapshots.list()
    taken = told["taken"]
    assert (taken.kind, taken.description, taken.unquiet) == ("manual", "so far", ())
    assert taken in list(rows)
    [event] = [one for one in team.ledger.events("snapshot_taken") if one["kind"] == "manual"]
    assert event["snapshot"] == taken.id


@pytest.mark.requirement("U2")
async def test_a_snapshot_is_restored_once_it_was_said_what_that_changes(opened):
    async def master(agent):
        await write(agent, team, "a", "one")
        told["taken"] = await door(team).snapshots.take("so far")
        await write(agent, team, "b", "two")
        told["open"] = await refused(door(team).snapshots.restore(told["taken"].id))
        await agent.complete()

    async def refused(restoring):
        with pytest.raises(ConfigError) as caught:
            await restoring
        return caught.value.code

    told: dict[str, Any] = {}
    async with opened(check=False) as team:  # what is decided after a run comes behind its end
        assert (await team.run("begin", master=master)).status == "completed"
        app, wanted = door(team), told["taken"].id
        planned = await app.snapshots.restore(wanted[:8], dry_run=True)
        assert (team.workspace / "b").exists()
        done = await app.snapshots.restore(wanted)
        assert not (team.workspace / "b").exists()
        nothing = await app.snapshots.restore(wanted, dry_run=True)
        again = await app.changes.undo("act")
        assert (team.workspace / "b").read_text() == "two"
        unknown = [await refused(app.snapshots.restore(one)) for one in ("0000000000", "zz")]
    assert told["open"] == "run_open"
    assert (planned.restored, planned.snapshot) == (wanted, None)
    assert planned.changes == done.changes == (ChangedFile(path="b", change="deleted"),)
    assert (nothing.files, nothing.changes) == (0, ())
    assert again.restored == done.snapshot
    assert unknown == ["unknown_snapshot"] * 2


async def test_before_a_session_has_begun_a_snapshot_is_of_none(opened):
    async with opened() as team:
        (team.workspace / "a").write_text("x")
        taken = await door(team).snapshots.take()
        assert taken.session is None
        assert list(await door(team).snapshots.list()) == []


async def test_what_an_undo_that_was_cut_off_comes_to_is_told_by_the_next_act(opened):
    """Also between two runs, where no event can tell it; a refused act leaves it to the next."""

    async def master(agent):
        await write(agent, team, "a", "one")
        await agent.complete()

    async with opened(check=False) as team:  # what is decided after a run comes behind its end
        app, folder = door(team), team.workspace
        assert (await team.run("begin", master=master)).status == "completed"
        kept = (await team.store.state(SESSION)).snapshots[-1].snapshot_id
        prompt = await find_prompt(team.store, SESSION)
        restore = partial(Shadow.restore, wanted=prompt.snapshot.snapshot_id)
        owing = partial(restore, then=prompt.owed(team.engine.ids))
        await team.engine.files.keeper.use(folder, owing)  # and here its process dies
        with pytest.raises(ConfigError, match="there is no snapshot"):
            await app.snapshots.restore("0000000000")
        made = await app.snapshots.restore(kept)
        again = await app.snapshots.restore(kept)
    finished = (
        "an undo that was cut off is finished: the files are back, and the next run begins anew"
    )
    assert made.notes == (f"{folder}: {finished}",)
    assert again.notes == ()


@pytest.mark.requirement("U27")
async def test_an_act_is_undone_below_a_run_that_is_open_and_its_agent_is_told(opened):
    """A person's file and another program's are named by their ids alone, whoever asks for all."""
    told: dict[str, Any] = {}

    async def master(agent):
        async with asyncio.timeout(20):
            app = door(team)
            await write(agent, team, "a", "one")
            (team.workspace / "mine").write_text("the person's")
            await write(agent, team, "b", "two")
            before = {name: (team.workspace / name).read_text() for name in ("a", "b", "mine")}
            [outside] = [one for one in await app.changes.list() if one.how == "outside"]
            made = await app.changes.reject()
            told["rejected"] = {one.path: one.state for one in made}
            assert (team.workspace / "mine").exists()
            acts = {one.act for one in made}
            assert [one.path for one in await app.changes.accept([outside.change])] == ["mine"]
            assert (await app.changes.commit(dry_run=True)).commits == ()
            undone = await app.changes.undo("act")
            told["undone"] = {one.path: one.state for one in undone.decided}
            assert {name: (team.workspace / name).read_text() for name in before} == before
            again = await app.changes.undo("act", undone.act)
            told["again"] = {one.path: one.state for one in again.decided}
            assert not (team.workspace / "a").exists()
            assert len(acts) == 1
            with pytest.raises(ConfigError) as unknown:
                await app.changes.undo("act", "0123456789")
            assert unknown.value.code == "unknown_act"
            told["heard"] = (await agent.outcome("get_budget", {})).text
            await agent.complete()

    async with opened(check=False) as team:
        assert (await team.run("begin", master=master)).status == "completed"
    both = {"a": "rejected", "b": "rejected"}
    pending = {"a": "pending", "b": "pending"}
    assert (told["rejected"], told["undone"], told["again"]) == (both, pending, both)
    assert "is there again" in str(told["heard"])
