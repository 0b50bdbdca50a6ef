"""What a person writes beside agents' calls is of no agent, and what may be theirs is not sure."""

from __future__ import annotations

import asyncio
import time

import pytest
from msgspec.structs import replace

from plugins.prsm_files.tests.session.hands import (
    NEEDS_GIT,
    Hand,
    folder,
    found,
    opened,
    put,
    until,
)
from tests.engine.harness import DEADLINE

__all__ = ["folder", "opened"]

pytestmark = [NEEDS_GIT, pytest.mark.requirement("U27")]


def how(team, path):
    """Return how each change of a path is known to be whose, oldest first, with its agents."""
    names = {record.agent_id: record.descriptor.name for record in team.manager.roster.records()}
    return [(one["how"], *[names[agent] for agent in one["agents"]]) for one in found(team, path)]


async def later(folder):
    """Wait until files get a later time than now."""
    now, probe = time.time(), folder.parent / "probe"

    def is_later():
        probe.write_text("x")
        return probe.stat().st_ctime > now

    await until(is_later)


async def test_what_a_person_writes_between_two_calls_is_of_no_agent(opened, folder):
    async def master(agent):
        hand = Hand(agent, folder)
        await hand.shell(lambda: put(folder / "made", "1\n"))
        await until(lambda: found(team, "made"))
        put(folder / "notes.md", "a person's\n")
        await hand.edit("a", "line 3\n", "mine\n")
        put(folder / "more.md", "a person's\n")
        await hand.shell(lambda: put(folder / "b", "2\n"))
        await agent.complete()

    async with opened() as team:
        assert (await team.run(master=master)).status == "completed"
    assert how(team, "notes.md") == how(team, "more.md") == [("outside",)]
    assert how(team, "made") == how(team, "b") == [("possible", "master")]
    assert how(team, "a") == [("named", "master")]


async def test_what_a_person_writes_before_the_look_behind_a_call_is_of_no_agent(opened, folder):
    """The kernel says that it was written after the call."""

    async def master(agent):
        hand = Hand(agent, folder)
        await hand.shell(lambda: put(folder / "made", "1\n"))
        await later(folder)
        put(folder / "notes.md", "a person's\n")
        await hand.shell(lambda: put(folder / "b", "2\n"))
        await agent.complete()

    async with opened() as team:
        assert (await team.run(master=master)).status == "completed"
    assert how(team, "notes.md") == [("outside",)]
    assert how(team, "made") == how(team, "b") == [("possible", "master")]


@pytest.mark.parametrize("is_told_first", [False, True])
async def test_what_a_person_writes_while_a_permission_waits_is_of_no_agent(
    opened, folder, is_told_first
):
    """Whether its vendor says before it asks that the call has begun, or behind it."""

    async def master(agent):
        hand = Hand(agent, folder)
        async with hand.call("Bash", command="echo one"):
            pass
        async with hand.call("Bash", command="make it", is_told_first=is_told_first):
            put(folder / "made", "1\n")
        await agent.complete()

    async with opened(interactive=True, on_ask=None) as team:
        running = team.start(master=master)
        asked = await team.seen("permission_requested", command="make it")
        await later(folder)
        put(folder / "notes.md", "a person's\n")
        team.engine.requests.resolve(asked.data["request"], "permission", {"verdict": "once"})
        assert (await running).status == "completed"
    assert how(team, "notes.md") == [("outside",)]
    assert how(team, "made") == [("possible", "master")]


async def test_what_a_person_writes_while_a_call_waits_at_the_gate_is_of_no_agent(opened, folder):
    async def master(agent):
        hand = Hand(agent, folder)
        await hand.shell(lambda: None)
        hold = team.engine.quiet.close_gate()
        waits = asyncio.ensure_future(hand.shell(lambda: put(folder / "made", "1\n")))
        await until(lambda: team.engine.quiet.is_wanted)
        put(folder / "notes.md", "a person's\n")
        hold.release()
        await waits
        await agent.complete()

    async with opened() as team:
        assert (await team.run(master=master)).status == "completed"
    assert how(team, "notes.md") == [("outside",)]
    assert how(team, "made") == [("possible", "master")]


async def test_what_a_person_writes_during_a_command_is_possible_and_no_more(opened, folder):
    async def master(agent):
        hand = Hand(agent, folder)
        async with hand.call("Bash", command="some command"):
            put(folder / "notes.md", "a person's\n")
        await agent.complete()

    async with opened() as team:
        assert (await team.run(master=master)).status == "completed"
    assert how(team, "notes.md") == [("possible", "master")]


async def test_a_command_in_a_folder_that_is_its_agents_own_explains_nothing_either(opened, folder):
    async def worker(agent):
        async with Hand(agent, folder).call("Bash", command="some command"):
            (folder / "src").mkdir()
            put(folder / "src" / "x", "1\n")
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="w1", tools=["Bash"], region=["src"])
        await agent.collect(1)
        await agent.complete()

    async with opened() as team:
        await team.run(master=master, w1=worker)
        [row] = await team.engine.files.watch.get().rows()
    assert (row.change.how, row.change.is_unsure) == ("region", True)


async def test_what_is_found_when_a_vendor_tells_late_of_a_call_is_possible(opened, folder):
    """It may have run for a while: whoever wrote before it was told is not known."""

    async def master(agent):
        hand = Hand(agent, folder)
        await hand.shell(lambda: put(folder / "made", "1\n"))
        await until(lambda: found(team, "made"))
        put(folder / "b", "by the call that is told behind it\n")
        await agent.start_tool("late", "Bash", command="some command")
        await agent.end_tool("late")
        await agent.complete()

    async with opened() as team:
        assert (await team.run(master=master)).status == "completed"
    [told] = found(team, "b")
    assert (told["how"], told["call"]) == ("possible", "late")


@pytest.mark.parametrize("is_first", [True, False])
async def test_what_a_person_writes_in_a_file_during_its_edit_is_a_change_of_its_own(
    opened, folder, is_first
):
    theirs = ("line 15\n", "a person's\n")

    def person():
        put(folder / "a", (folder / "a").read_text().replace(*theirs))

    async def master(agent):
        hand = Hand(agent, folder)
        given = {"file_path": "a", "old_string": "line 3\n", "new_string": "mine\n"}
        async with hand.call("Edit", paths=("a",), arguments=given):
            if is_first:
                person()
            put(folder / "a", (folder / "a").read_text().replace("line 3\n", "mine\n"))
            if not is_first:
                person()
        await agent.complete()

    async with opened() as team:
        assert (await team.run(master=master)).status == "completed"
        rows = await team.engine.files.watch.get().rows()
        patches = [await team.engine.files.watch.get().patch([row]) for row in rows]
    assert how(team, "a") == [("named", "master"), ("possible", "master")]
    assert [[line for line in told.splitlines()[5:] if line[0] in "+-"] for told in patches] == [
        ["-line 3", "+mine"],
        ["-line 15", "+a person's"],
    ]
    assert [(row.change.added, row.change.removed) for row in rows] == [(1, 1), (1, 1)]


async def test_an_edit_that_was_not_made_explains_nothing(opened, folder):
    async def master(agent):
        hand = Hand(agent, folder)
        given = {"file_path": "a", "old_string": "not there", "new_string": "mine"}
        async with hand.call("Edit", paths=("a",), arguments=given):
            put(folder / "a", "a person's\n")
        await agent.complete()

    async with opened() as team:
        assert (await team.run(master=master)).status == "completed"
    assert how(team, "a") == [("possible", "master")]


PATCH = """\
*** Begin Patch
*** Update File: a
@@
 line 2
-line 3
+mine
*** Add File: new
+mine, too
*** Delete File: old
*** Update File: from
*** Move to: to
@@
-text
+another
*** End Patch
"""


async def test_each_file_of_a_patch_is_explained_by_its_part(opened, folder):
    put(folder / "old", "old\n")
    put(folder / "from", "head\ntext\n")

    async def master(agent):
        hand = Hand(agent, folder)
        paths = ("a", "new", "old", "from", "to")
        given = {"paths": list(paths), "diff": PATCH}
        async with hand.call("Edit", paths=paths, arguments=given):
            put(folder / "a", (folder / "a").read_text().replace("line 3\n", "mine\n"))
            put(folder / "new", "mine, too\n")
            (folder / "old").unlink()
            (folder / "from").unlink()
            put(folder / "to", "head\nanother\n")
        await agent.complete()

    async with opened() as team:
        assert (await team.run(master=master)).status == "completed"
    told = {path: how(team, path) for path in ("a", "new", "old", "from", "to")}
    assert list(told.values()) == [[("named", "master")]] * len(told)


async def test_who_writes_the_same_text_shares_it(opened, folder):
    both = asyncio.Barrier(2)

    async def worker(agent):
        given = {"file_path": "b", "content": "the same\n"}
        async with Hand(agent, folder).call("Write", paths=("b",), arguments=given):
            async with asyncio.timeout(DEADLINE):
                await both.wait()
            put(folder / "b", "the same\n")
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="w1", tools=["Write"])
        await agent.spawn(name="w2", tools=["Write"])
        await agent.collect(2)
        await agent.complete()

    async with opened() as team:
        await team.run(master=master, w1=worker, w2=worker)
    [(way, *agents)] = how(team, "b")
    assert (way, sorted(agents)) == ("shared", ["w1", "w2"])


def test_a_change_is_unsure_where_no_call_explains_it():
    from prsm_core.domain.changes import FileChange

    made = FileChange(id="1", scan="1", path="a", folder="/", kind="added", how="named")
    all_ = ("named", "shared", "sole", "region", "possible", "outside")
    assert [one for one in all_ if replace(made, how=one).is_unsure] == ["region", "possible"]
