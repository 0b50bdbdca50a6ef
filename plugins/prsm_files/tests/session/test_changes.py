"""What agents change is found, attributed and told by the engine, and taken back with its help."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from functools import partial
from typing import Any

import pytest
from msgspec.structs import asdict
from prsm_files.session.deciding import Choice

from plugins.prsm_files.tests.session.hands import (
    NEEDS_GIT,
    CountedShadows,
    Hand,
    folder,
    found,
    opened,
    put,
    until,
)
from plugins.prsm_files.tests.shadow_scene import DirectGit
from prsm_core.domain.changes import PENDING
from prsm_core.engine.door.local import LocalApp
from prsm_core.errors import ConfigError
from prsm_core.interfaces.frontend import RunOptions
from tests.engine.deaths import die, go_on, run_to_death
from tests.engine.harness import SESSION

__all__ = ["folder", "opened"]

pytestmark = NEEDS_GIT


def whose(row, team):
    """Return how a change is attributed: the way, agents, the likeliest call."""
    names = {record.agent_id: record.descriptor.name for record in team.manager.roster.records()}
    change = row.change
    agents = sorted({names[one.agent] for one in change.authors})
    return change.how, agents, change.author and change.author.call


async def test_a_call_that_names_a_file_outside_of_the_folder_is_no_matter_of_git(
    opened, folder, tmp_path
):
    """As each does whose agent has a worktree: git would refuse to be asked of such a path."""

    async def master(agent):
        hand = Hand(agent, folder)
        paths = ("a", "../outside", str(tmp_path / "other"))
        given = {"file_path": "a", "content": "another\n"}
        async with hand.call("Write", paths=paths, arguments=given):
            put(folder / "a", "another\n")
            put(tmp_path / "outside", "x\n")
        await hand.write("../outside", "y\n")
        await agent.complete()

    async with opened() as team:
        assert (await team.run(master=master)).status == "completed"
        [row] = await team.engine.files.watch.get().rows()
        assert whose(row, team) == ("named", ["master"], "master-1")
    assert (row.change.path, row.change.kind) == ("a", "modified")
    assert team.ledger.events("notice") == []


@pytest.mark.requirement("D21")
async def test_what_calls_change_is_told_with_the_call_and_kept_once(opened, folder):
    put(folder / "dirty", "before\n")

    async def master(agent):
        hand = Hand(agent, folder)
        await hand.write("a", "another\n")
        await hand.shell(lambda: put(folder / "made", "1\n2\n"))
        await hand.shell(lambda: (folder / "dirty").unlink())
        await agent.complete()

    async with opened() as team:
        assert (await team.run(master=master)).status == "completed"
        found = {row.change.path: row for row in await team.engine.files.watch.get().rows()}
    assert {path: (whose(row, team), row.change.kind) for path, row in found.items()} == {
        "a": (("named", ["master"], "master-1"), "modified"),
        "made": (("possible", ["master"], "master-2"), "added"),
        "dirty": (("possible", ["master"], "master-3"), "deleted"),
    }
    told = team.ledger.events("file_changed", "master")
    assert {event["path"]: (event["added"], event["removed"]) for event in told} == {
        "a": (1, 20),
        "made": (2, 0),
        "dirty": (0, 1),
    }
    assert all(row.change.author.turn for row in found.values())


@pytest.mark.requirement("E42")
async def test_a_frontend_is_told_why_a_file_and_a_line_of_it_were_changed(opened, folder):
    async def master(agent):
        hand = Hand(agent, folder)
        await agent.say("I fix the bug in the first line.")
        await hand.write("a", "first\nsecond\n")
        await agent.say("I fix another bug: a third line is missing.")
        await hand.write("a", "first\nsecond\nthird\n")
        await agent.complete()

    async with opened() as team:
        options = RunOptions(workspace=str(team.workspace))
        app = LocalApp(team.engine, options, team.store, SESSION)
        await team.run(master=master)
        whole, line = (
            await app.changes.rationale("a"),
            await app.changes.rationale(str(folder / "a"), 2),
        )
        with pytest.raises(ConfigError) as unknown:
            await app.changes.rationale("a", 4)
    assert whole.reason is not None
    assert (whole.call, whole.reason.text) == (
        "master-2",
        "I fix another bug: a third line is missing.",
    )
    assert (line.call, line.name, line.how) == ("master-1", "master", "named")
    assert line.reason is not None
    assert line.reason.text == "I fix the bug in the first line."
    said = list(team.ledger.events("message_completed", "master"))
    assert [e["text"] for e in said if e["seq"] == line.reason.seq] == [
        "I fix the bug in the first line."
    ]
    assert unknown.value.code == "no_such_line"


@pytest.mark.requirement("E42")
async def test_a_frontend_is_shown_a_change_with_its_lines_and_its_reason(opened, folder):
    async def master(agent):
        hand = Hand(agent, folder)
        await agent.say("I fix the bug in the first line.")
        await hand.write("a", "first\nsecond\n")
        await agent.say("I fix another bug: a third line is missing.")
        await hand.write("a", "first\nsecond\nthird\n")
        await agent.complete()

    async with opened(check=False) as team:  # what is decided comes behind the run's end
        options = RunOptions(workspace=str(team.workspace))
        app = LocalApp(team.engine, options, team.store, SESSION)
        await team.run(master=master)
        first, second = await app.changes.list()
        await app.changes.accept([first.change])
        shown = [await app.changes.show(one.change) for one in (first, second)]
        with pytest.raises(ConfigError) as unknown:
            await app.changes.show("nothing")
    assert [one.state for one in shown] == ["accepted", "pending"]
    assert asdict(second).items() <= asdict(shown[1]).items()
    assert [one.rationale and one.rationale.text for one in shown] == [
        "I fix the bug in the first line.",
        "I fix another bug: a third line is missing.",
    ]
    assert shown[1].diff.splitlines()[-1] == "+third"
    assert "+first" in shown[0].diff.splitlines()
    assert unknown.value.code == "unknown_change"


async def test_accepted_changes_are_committed_while_their_agent_goes_on(
    opened, folder, monkeypatch
):
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ada@x")
    told: list[Any] = []

    async def master(agent):
        hand = Hand(agent, folder)
        await agent.say("I fix the bug in the new file.")
        await hand.write("b", "accepted\n")
        await hand.write("c", "pending\n")
        await until(lambda: found(team, "b") and found(team, "c"))
        [change] = [one for one in await app.changes.list() if one.path == "b"]
        await app.changes.accept([change.change])
        told.append(await app.changes.commit(dry_run=True))
        told.append(await app.changes.commit())
        told.append(await app.changes.commit())
        await hand.write("b", "and more\n")
        await agent.complete()

    async with opened() as team:
        app = LocalApp(team.engine, RunOptions(workspace=str(folder)), team.store, SESSION)
        assert (await team.run(master=master)).status == "completed"
        rows = {(one.path, one.state): one.why for one in await app.changes.list()}
    plan, done, again = told
    assert [one.files for one in (*plan.commits, *done.commits)] == [("b",), ("b",)]
    [commit] = [one.commit for one in done.commits]
    assert (plan.commits[0].commit, again.commits) == (None, ())
    assert rows == {("b", "committed"): commit, ("c", "pending"): None, ("b", "pending"): None}
    git = partial(subprocess.run, cwd=folder, check=True, capture_output=True, text=True)
    said = git(["git", "log", "--format=%H %an %s"]).stdout
    assert said == f"{commit} Ada I fix the bug in the new file\n"


async def test_a_person_beside_an_agent_is_told_from_it_and_both_are_told(opened, folder):
    heard: list[Any] = []

    async def master(agent):
        hand = Hand(agent, folder)
        await hand.write("a", "by the agent\n")
        await until(lambda: found(team, "a"))
        put(folder / "a", "by the agent\nby a person\n")
        put(folder / "notes", "a person's\n")
        await hand.write("a", "by the agent again\n")
        await until(lambda: len(found(team, "a")) == 3)
        outcome = await agent.outcome("report_progress", {"status": "half"})
        heard.append(outcome.text)
        await agent.complete()

    async with opened() as team:
        await team.run(master=master)
    first, person, again = found(team, "a")
    assert [one["how"] for one in (first, person, again)] == ["named", "outside", "named"]
    assert (first["beside"], person["agent"]) == ([], None)
    assert person["beside"] == [team["master"].agent_id]
    assert again["beside"] == [""]
    [notes] = found(team, "notes")
    assert (notes["how"], notes["agents"], notes["beside"]) == ("outside", [], [])
    assert "- a: the user, or another program" in heard[0]


async def test_two_agents_on_one_file_are_a_conflict_that_both_hear_of(opened, folder):
    heard = {}

    async def worker(agent, text, before, after):
        hand = Hand(agent, folder)
        await until(before)
        await hand.write("a", text)
        await until(after)
        outcome = await agent.outcome("report_progress", {"status": "half"})
        heard[agent.name] = outcome.text
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="w1", tools=["Write", "Bash"])
        await agent.spawn(name="w2", tools=["Write", "Bash"])
        await agent.collect(2)
        await agent.complete()

    async with opened() as team:
        both = lambda: len(found(team, "a")) == 2  # noqa: E731
        await team.run(
            master=master,
            w1=lambda agent: worker(agent, "one\n", lambda: True, both),
            w2=lambda agent: worker(agent, "two\n", lambda: found(team, "a"), both),
        )
    first, second = found(team, "a")
    assert [(one["agent"], one["how"]) for one in (first, second)] == [
        ("w1", "named"),
        ("w2", "named"),
    ]
    assert second["beside"] == [team["w1"].agent_id]
    assert "- a: w2" in heard["w1"]
    assert "- a: w1" in heard["w2"]


async def test_of_what_several_may_have_done_all_are_named(opened, folder):
    started = asyncio.Event()

    async def first(agent):
        hand = Hand(agent, folder)
        async with hand.call("Bash", command="long command"):
            started.set()
            await until(lambda: found(team, "b"))
        await agent.complete()

    async def second(agent):
        await started.wait()
        await Hand(agent, folder).shell(lambda: put(folder / "b", "x\n"))
        await agent.complete()

    async def master(agent):
        await agent.spawn(name="w1", tools=["Bash"])
        await agent.spawn(name="w2", tools=["Bash"])
        await agent.collect(2)
        await agent.complete()

    async with opened() as team:
        await team.run(master=master, w1=first, w2=second)
    [told] = found(team, "b")
    assert told["how"] == "possible"
    assert set(told["agents"]) == {team["w1"].agent_id, team["w2"].agent_id}


async def test_what_a_call_did_before_the_engine_died_is_its_own(opened, folder):
    async def master(agent):
        hand = Hand(agent, folder)
        await hand.write("a", "before\n")
        await until(lambda: found(team, "a"))
        async with hand.call("Bash", command="some command"):
            put(folder / "b", "x\n")
            await die(team)

    async def mastered(agent):
        await until(lambda: found(again, "b"))
        await agent.complete()

    async with opened(check=False) as team:
        await run_to_death(team, master=master)
    async with opened() as again:
        assert (await go_on(again, master=mastered)).status == "completed"
    assert len(found(again, "a")) == 1
    [told] = found(again, "b")
    assert (told["agent"], told["how"], told["call"]) == ("master", "possible", "master-2")


async def test_what_a_person_does_while_no_engine_runs_is_nobodys_change(opened, folder):
    async def master(agent):
        async with Hand(agent, folder).call("Bash", command="some command"):
            put(folder / "b", "x\n")
            await agent.hang()

    async def mastered(agent):
        await Hand(agent, folder).write("c", "1\n")
        await agent.complete()

    async with opened(check=False) as team:
        run = team.start(master=master)
        await until(lambda: (folder / "b").exists())
        await team.engine.shutdown()
        with contextlib.suppress(Exception):
            await run
    [told] = found(team, "b")
    assert (told["agent"], told["how"]) == ("master", "possible")
    assert team.ledger.events("notice") == [], "what finds it is not ended with the programs"
    put(folder / "b", "a person's\n")
    async with opened() as again:
        assert (await go_on(again, master=mastered)).status == "completed"
    assert len(found(again, "b")) == 1
    assert len(found(again, "c")) == 1


class AskedShadows(CountedShadows):
    is_asked = False

    def open(self, git, folder):
        self.is_asked = True
        return super().open(git, folder)


async def test_an_engine_that_is_left_does_not_wait_until_it_knows_the_folder(
    opened, folder, tmp_path
):
    """No call has run that waits for it; git here would wait for a pipe, and then be told of."""
    shadows = AskedShadows(state=tmp_path / "state", data=tmp_path / "data")
    os.mkfifo(folder / ".gitignore")

    async def master(agent):
        await Hand(agent, folder).write("b", "x\n")

    async with opened(check=False, shadows=shadows) as team:
        run = team.start(master=master)
        await until(lambda: shadows.is_asked)
        await team.engine.shutdown()
        with contextlib.suppress(Exception):
            await run
    assert team.ledger.events("notice") == []
    assert team.ledger.events()[-1]["type"] == "run_finished"
    assert not (folder / "b").exists()


@pytest.mark.requirement("U6")
async def test_a_change_is_taken_back_alone_and_its_agent_is_told_why(opened, folder):
    heard: list[Any] = []
    lines = [f"line {n}\n" for n in range(20)]

    async def master(agent):
        hand = Hand(agent, folder)
        await hand.write("a", "".join(["first\n", *lines[1:]]))
        await hand.write("a", "".join(["first\n", *lines[1:19], "last\n"]))
        await hand.write("b", "x\n")
        await until(lambda: len(found(team, "a")) == 2 and found(team, "b"))
        changes = team.engine.files.watch.get()
        [first, _, other] = await changes.rows()
        made, _ = await changes.verdicts.reject(Choice(ids=(first.change.id,)))
        heard.append([(one.path, one.state) for one in made])
        await changes.verdicts.accept(Choice(ids=(other.change.id,)))
        with pytest.raises(ConfigError) as again:
            await changes.verdicts.reject(Choice(ids=(other.change.id,)))
        heard.append(again.value.code)
        outcome = await agent.outcome("report_progress", {"status": "half"})
        heard.append(outcome.text)
        await agent.complete()

    async with opened() as team:
        await team.run(master=master)
        states = {row.change.id: row.state for row in await team.engine.files.watch.get().rows()}
    assert heard[:2] == [[("a", "rejected")], "already_decided"]
    assert "- a: taken back" in heard[2]
    assert (folder / "a").read_text() == "".join([*lines[:19], "last\n"])
    assert sorted(states.values()) == ["accepted", PENDING, "rejected"]
    assert len(found(team, "a")) == 2, "what was taken back is no change of anybody"


async def test_what_nobody_saw_the_end_of_is_found_before_the_run_ends(opened, folder):
    async def master(agent):
        hand = Hand(agent, folder)
        async with hand.call("Bash", command="some command"):
            put(folder / "b", "x\n")
            await agent.complete()

    async with opened() as team:
        await team.run(master=master)
    [told] = found(team, "b")
    assert (told["agent"], told["how"]) == ("master", "possible")
    assert team.ledger.events()[-1]["type"] == "run_finished"


async def test_a_run_in_which_nothing_is_written_tells_of_no_change(opened, folder):
    async def master(agent):
        put(folder / "b", "a person's, while no call ran\n")
        await agent.complete()

    async with opened() as team:
        await team.run(master=master)
    assert [one["how"] for one in found(team, "b")] in ([], ["outside"])


async def test_without_git_the_run_goes_on_and_says_so_once(opened, folder, tmp_path, monkeypatch):
    async def master(agent):
        hand = Hand(agent, folder)
        await hand.write("a", "1\n")
        await hand.write("a", "2\n")
        await agent.complete()

    empty = tmp_path / "empty"
    empty.mkdir()
    async with opened() as team:
        monkeypatch.setitem(team.engine.files.keeper._launcher._environ, "PATH", str(empty))
        assert (await team.run(master=master)).status == "completed"
    assert found(team, "a") == []


async def test_what_a_person_restores_during_a_run_is_nobodys_change(opened, folder):
    """Another process does it while the agent waits; what was changed before is found first."""

    async def master(agent):
        hand = Hand(agent, folder)
        await hand.shell(lambda: put(folder / "made", "1\n"))
        door = LocalApp(team.engine, RunOptions(), team.store, SESSION)
        held = door.changes.hold_files()
        assert await anext(held) == []
        await asyncio.to_thread(lambda: shadow.restore(shadow.snapshots()[0].id))
        await held.aclose()
        assert not (folder / "made").exists()
        await hand.shell(lambda: put(folder / "b", "1\n"))
        await agent.complete()

    shadow = CountedShadows(state=folder.parent / "state", data=folder.parent / "data").open(
        DirectGit(), folder
    )
    async with opened() as team:
        assert (await team.run(master=master)).status == "completed"
        found = [(row.change.path, *whose(row, team)) for row in await team.store.changes(SESSION)]
    assert found == [
        ("made", "possible", ["master"], "master-1"),
        ("b", "possible", ["master"], "master-2"),
    ]
