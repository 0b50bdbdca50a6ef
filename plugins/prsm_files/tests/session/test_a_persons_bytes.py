"""A person and three agents in one folder at random: no byte of the person's is lost by PRSM.

What a person wrote is never certainly an agent's, and whatever a rejection or an undo writes over
comes back by `undo`, byte for byte.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from plugins.prsm_files.tests.session.hands import NEEDS_GIT, folder, opened
from plugins.prsm_files.tests.session.town import (
    PERSON,
    WORKERS,
    Town,
    furnish,
    lines_of,
    marks,
    tree,
)
from prsm_core.engine.door.local import LocalApp
from prsm_core.interfaces.frontend import RunOptions
from tests.engine.harness import SESSION

__all__ = ["folder", "opened"]

pytestmark = NEEDS_GIT

ACTS = 6
CERTAIN = frozenset({"sole", "named", "shared"})  # what is taken back without being asked for
OPEN = frozenset({"pending", "unmerged"})


async def play(opened, folder, seed):
    """Have three agents and a person at work, then decide about what they did, at random."""
    furnish(folder)
    town, people = Town(folder, seed), []

    async def master(agent):
        for name in WORKERS:
            await agent.spawn(name=name, tools=["Write", "Edit", "Bash"])
        people.append(asyncio.ensure_future(town.be_a_person()))
        await agent.collect(len(WORKERS))
        people[0].cancel()
        await agent.complete()

    async with opened(interactive=True, on_ask=None, check=False) as team:
        town.app = app = LocalApp(team.engine, RunOptions(provider="script"), team.store, SESSION)
        team.provider.behaviours.update(dict.fromkeys(WORKERS, town.work), master=master)
        result = await team.engine.run("do it")
        assert (result.status, team.provider.failures) == ("completed", [])
        rows = await team.engine.files.watch.get().rows()
        names = {one.agent_id: one.descriptor.name for one in team.manager.roster.records()}
        texts = await team.engine.files.keeper.use(folder, lambda shadow: held(shadow, rows))
        check_authors(town, rows, names, texts)
        await decide(app, town)
        await app.aclose()


def held(shadow, rows):
    """Return the contents that changes name."""
    with shadow.at_work():
        read = shadow.root("").shadow.run
        blobs = {blob for row in rows for blob in (row.change.before, row.change.after) if blob}
        return {blob: read("cat-file", "blob", blob) for blob in blobs}


def check_authors(town, rows, names, texts):
    """No line that the person wrote, or took, is certainly an agent's."""
    for change in (row.change for row in rows if row.change.how in CERTAIN):
        before, after = (
            Counter(lines_of(texts.get(blob))) for blob in (change.before, change.after)
        )
        added, gone = after - before, before - after
        assert not [line for line in added if line.startswith(PERSON)], (change, texts)
        if not {one.call for one in change.authors} & town.whole:  # it replaced what was there
            own = set().union(*(town.removed.get(names[one.agent], ()) for one in change.authors))
            assert not [line for line in gone if line not in own], (change, added, gone)


async def decide(app, town):
    """Reject, accept, commit and undo at random; all that was written comes back."""
    chance = town.chance("decides")
    first, has_saved, acts = tree(town.folder), False, []
    for _ in range(ACTS):
        before = tree(town.folder)
        act, is_default = await decide_once(app, chance)
        if is_default:
            assert marks(before) <= marks(tree(town.folder))
        if act is None:
            assert tree(town.folder) == before
        elif chance.random() < 0.5:
            saves = chance.random() < 0.5
            has_saved |= saves
            await take_back(app, town, act, before, saves=saves)
        else:
            acts.append(act)
    if not has_saved:
        for act in reversed(acts):
            await app.changes.undo("act", act)
        assert tree(town.folder) == first


async def decide_once(app, chance):
    """Decide something; return the act, and whether only what is certainly the agents' went."""
    what = chance.choice(("reject", "possible", "one", "turn", "accept", "commit"))
    if what == "accept":
        await app.changes.accept()
    elif what == "commit":
        await app.changes.commit()
    elif what == "turn":
        with_possible = chance.random() < 0.5
        return (await app.changes.undo("turn", possible=with_possible)).act, not with_possible
    else:
        ids = [one.change for one in await app.changes.list() if one.state in OPEN]
        meant = [chance.choice(ids)] if what == "one" and ids else ()
        made = await app.changes.reject(meant, possible=what == "possible")
        return next((one.act for one in made), None), what == "reject"
    return None, False


async def take_back(app, town, act, before, *, saves):
    """Undo an act: all is as before; what was saved since is merged, or stays and is named."""
    acted = tree(town.folder)
    if saves:
        town.save(town.chance(act))
    now = tree(town.folder)
    told = await app.changes.undo("act", act)
    after = tree(town.folder)
    if not saves:
        assert after == before
        return
    saved = marks(now) - marks(acted)
    stays = {path: before[path] for path in stays_of(told) if path in before}
    assert saved <= marks(after)
    assert marks(before) - marks(after) <= marks(stays), (told.stays, told.changes)


def stays_of(told):
    """Return the files that an undo has left as they are."""
    return [one.path for one in told.stays]


@pytest.mark.requirement("U27")
@pytest.mark.parametrize("seed", [0])
async def test_no_byte_of_a_person_is_lost_or_booked_on_an_agent(opened, folder, seed):
    await play(opened, folder, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1300))
async def test_three_hundred_times_no_byte_of_a_person_is_lost(opened, folder, seed):
    await play(opened, folder, seed)
