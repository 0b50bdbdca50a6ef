"""Agents and a person write at random in one folder of a real engine: each byte is in one change.

All that is written has a mark of its own, so that it can be told who wrote it.
"""

from __future__ import annotations

import asyncio
import random
import re
from itertools import count

import pytest
from prsm_files.session.deciding import Choice

from plugins.prsm_files.tests.session.hands import NEEDS_GIT, Hand, folder, opened
from prsm_core.domain.changes import PENDING
from prsm_core.errors import ConfigError

__all__ = ["folder", "opened"]

pytestmark = NEEDS_GIT

WORKERS = ("w1", "w2", "w3")
PATHS = ("a", "b", "d/c", "d/e")
STEPS = 4
PERSON = "person"


class Town:
    """What is done in the folder, and by whom."""

    def __init__(self, folder, seed):
        self.folder = folder
        self.seed = seed
        self.marks = count(1)
        self.start = self.tree()
        self.calls = {}  # agent's name and the files that a call named, if it did, by call
        self.taken_back = set()  # paths
        self.at_work = asyncio.Event()  # before that a person's work is no change

    def tree(self):
        """Return what each file holds."""
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        names = {str(path.relative_to(self.folder)): path for path in files}
        return {name: path.read_text() for name, path in names.items() if ".git/" not in name}

    def scribble(self, chance, who, path):
        """Write a line with a mark into a file at once, or remove it.

        A look that falls into a write sees half of it, and who writes the rest brings all marks.
        """
        file = self.folder / path
        if file.exists() and chance.random() < 0.15:
            file.unlink()
            return
        file.parent.mkdir(exist_ok=True)
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        at = chance.randint(0, len(lines))
        lines[at : at + chance.randint(0, 1)] = [f"{who}:{next(self.marks)}\n"]
        beside = self.folder.parent / "beside"
        beside.write_text("".join(lines))
        beside.replace(file)

    async def work(self, agent):
        """Be an agent: write by tools that name the file, and by commands that say nothing."""
        chance, hand = random.Random(f"{self.seed}{agent.name}"), Hand(agent, self.folder)
        for _ in range(STEPS):
            paths = chance.sample(PATHS, chance.randint(1, 2))
            if chance.random() < 0.3:
                await self.edit(chance, hand, paths[0])
                continue
            if chance.random() < 0.3:
                call = hand.call("Write", paths=(paths[0],))
                self.calls[call.id] = agent.name, paths[:1]
            else:
                call = hand.call("Bash", command="some command")
                self.calls[call.id] = agent.name, None
            async with call:
                self.at_work.set()
                for path in paths if self.calls[call.id][1] is None else paths[:1]:
                    await pause(chance)
                    self.scribble(chance, agent.name, path)
                await pause(chance)
        await agent.complete()

    async def edit(self, chance, hand, path):
        """Write a line behind one of a file, by a tool that says so; or not, if that is gone."""
        who, file = hand.agent.name, self.folder / path
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        old = chance.choice(lines) if lines else ""
        new = f"{old}{who}:{next(self.marks)}\n"
        given = {"file_path": path, "old_string": old, "new_string": new}
        call = hand.call("Edit", paths=(path,), arguments=given)
        self.calls[call.id] = who, [path]
        async with call:
            self.at_work.set()
            await pause(chance)
            text = file.read_text() if file.exists() else ""
            if old in text and bool(text) == bool(old):
                file.parent.mkdir(exist_ok=True)
                beside = self.folder.parent / "beside"
                beside.write_text(text.replace(old, new, 1))
                beside.replace(file)
            await pause(chance)

    async def be_a_person(self, team):
        """Write, accept and reject, whatever agents do."""
        chance, changes = random.Random(f"{self.seed}person"), team.engine.files.watch.get()
        await self.at_work.wait()
        for _ in range(STEPS):
            await pause(chance)
            self.scribble(chance, PERSON, chance.choice(PATHS))
            rows = [row for row in await changes.rows() if row.state == PENDING]
            if rows and chance.random() < 0.7:
                row = chance.choice(rows)
                choice = Choice(ids=(row.change.id,))
                try:
                    if chance.random() < 0.5:
                        made = await changes.verdicts.accept(choice)
                    else:
                        made, _ = await changes.verdicts.reject(choice)
                except ConfigError as error:
                    if error.code != "agents_write":
                        raise
                else:
                    self.taken_back |= {one.path for one in made if one.state == "rejected"}


async def pause(chance):
    """Let others go on for a while."""
    for _ in range(chance.randint(0, 30)):
        await asyncio.sleep(0)
    if chance.random() < 0.3:
        await asyncio.to_thread(lambda: None)


async def play(opened, folder, seed):
    """Have three agents and a person at work; look at each change that was found."""
    town, people = Town(folder, seed), []

    async def master(agent):
        for name in WORKERS:
            await agent.spawn(name=name, tools=["Write", "Bash"])
        people.append(asyncio.ensure_future(town.be_a_person(team)))
        await agent.collect(len(WORKERS))
        await people[0]
        await agent.complete()

    async with opened() as team:
        team.provider.behaviours.update(dict.fromkeys(WORKERS, town.work), master=master)
        result = await team.engine.run("do it")  # it takes what it takes
        assert (result.status, team.provider.failures) == ("completed", [])
        rows = await team.engine.files.watch.get().rows()
        names = {one.agent_id: one.descriptor.name for one in team.manager.roster.records()}
        texts = await team.engine.files.keeper.use(folder, lambda shadow: held(shadow, rows))
    check(town, rows, names, texts)


def held(shadow, rows):
    """Return the contents that changes name."""
    with shadow.at_work():
        read = shadow.root("").shadow.run
        blobs = {blob for row in rows for blob in (row.change.before, row.change.after) if blob}
        return {blob: read("cat-file", "blob", blob).decode() for blob in blobs}


def check(town, rows, names, texts):
    """Changes lead from what was to what is, and whose marks they bring is among their authors."""
    state = {path: town.start.get(path) for path in PATHS}
    for row in rows:
        change = row.change
        before = None if change.before is None else texts[change.before]
        after = None if change.after is None else texts[change.after]
        assert before == state[change.path] or change.path in town.taken_back
        state[change.path] = after
        authors = {names[one.agent] for one in change.authors}
        new = set(marks(after)) - set(marks(before))
        wrote = {who for who, _ in new} - {PERSON}
        is_persons_last = change.how == "outside" and PERSON in {who for who, _ in new}
        if not is_persons_last:  # behind the end of the call, as the kernel says
            assert wrote <= authors, (change, new)
        if change.how in {"named", "sole"}:
            assert PERSON not in {who for who, _ in new}, (change, new)
        if change.how == "outside":
            assert not authors
        for one in change.authors:
            name, paths = town.calls[one.call]
            assert name == names[one.agent]
            assert paths is None or change.path in paths
    now = town.tree()
    for path in set(PATHS) - town.taken_back:
        assert state[path] == now.get(path)


def marks(text):
    """Return who wrote the lines of a text, each with its number."""
    return re.findall(r"^(\w+):(\d+)$", text or "", re.MULTILINE)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.requirement("D21")
async def test_agents_and_a_person_at_random(opened, folder, seed):
    await play(opened, folder, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 200))
async def test_a_hundred_times_agents_and_a_person_at_random(opened, folder, seed):
    await play(opened, folder, seed)
