"""Changes and snapshots in the linear mode: told by numbers, decided, commented on, restored."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from plugins.prsm_tui.tests.test_changes import states, team
from plugins.prsm_tui.tests.test_linear import hearing
from prsm_core.door import ChangedFile

pytestmark = pytest.mark.requirement("D22")


async def test_changes_are_told_by_numbers_and_their_rows_can_be_followed_alone():
    app = await team()
    async with hearing(app) as ears:
        await ears.hears("selected: agent 1")
        ears.type("/changes\n")
        await ears.hears("change 2: b.md")
        ears.type("/lines 1\n")
        await ears.hears("change 1: end of its rows")
        told = [line for line in ears.lines if line.startswith("change")]
        assert told == [
            "changes: 2 that nothing is decided about; /lines NUMBER tells one",
            "change 1: a.py, modified by fixer, 1 line more, 1 line less, pending; "
            "conflict: somebody outside changed it, too",
            "change 2: b.md, modified by writer, 1 line more, 0 lines less, pending",
            "change 1: a.py, modified by fixer, 1 line more, 1 line less, pending; "
            "conflict: somebody outside changed it, too",
            "change 1, row 1: a part begins: @@ -4,3 +4,3 @@ def f():",
            "change 1, row 2: line 4 stays: same",
            "change 1, row 3: line 5 goes: old = 1",
            "change 1, row 4: line 5 comes: new = 1",
            "change 1, row 5: line 6 stays: end",
            "change 1: end of its rows",
        ]


async def test_changes_are_accepted_by_numbers_and_rejected_after_a_question():
    app = await team()
    async with hearing(app) as ears:
        await ears.hears("selected: agent 1")
        ears.type("/reject 1\n")
        await ears.hears("which changes? Their numbers, or all; /changes")
        ears.type("/changes\n")
        await ears.hears("change 2: b.md")
        ears.type("/accept 2\n")
        await ears.hears("prsm: accepted: b.md")
        ears.type("/reject 1\n")
        await ears.hears("sure: take back the change of a.py by fixer?")
        ears.type("2\n")
        await ears.hears("prsm: not done")
        assert states(app) == {"c1": "accepted", "c2": "pending"}
        ears.type("/reject all\n")
        ears.type("1\n")
        await ears.hears("prsm: rejected: a.py")
        ears.type("/accept 1 2\n")
        await ears.hears("there is nothing to decide")
        ears.type("/changes all\n")
        await ears.hears("changes: 2 in all", "change 1: a.py, modified by fixer, 1 line more")
        assert states(app) == {"c1": "accepted", "c2": "rejected"}


async def test_what_the_person_may_have_made_stays_unless_its_number_is_given():
    app = await team()
    app.find_change("c3", "c.py", "f", how="region")
    async with hearing(app) as ears:
        await ears.hears("selected: agent 1")
        ears.type("/changes\n")
        await ears.hears("change 3: c.py, modified by fixer?")
        ears.type("/reject all\n")
        await ears.hears("take back 2 changes of 2 files", "you may have made them (?): 1")
        ears.type("1\n")
        await ears.until(lambda: states(app)["c1"] == "rejected")
        assert states(app) == {"c1": "rejected", "c2": "rejected", "c3": "pending"}
        ears.type("/reject all\n")
        await ears.hears("you may have made them (?): 1; give their numbers")
        ears.type("/reject 3\n")
        await ears.hears("take back the change of c.py by fixer?")
        ears.type("1\n")
        await ears.until(lambda: states(app)["c3"] == "rejected")


@pytest.mark.requirement("U27")
async def test_all_means_the_agents_changes_and_what_is_from_outside_is_decided_by_its_number():
    app = await team()
    app.find_change("c3", "mine", None, diff="")
    async with hearing(app) as ears:
        await ears.hears("selected: agent 1")
        ears.type("/changes\n")
        await ears.hears("change 3: mine")
        ears.type("/accept all\n")
        await ears.hears("sure: accept 2 changes of 2 files?")
        ears.type("1\n")
        await ears.hears("a.py is accepted", "b.md is accepted")
        assert states(app) == {"c1": "accepted", "c2": "accepted", "c3": "pending"}
        ears.type("/reject 3\n")
        await ears.hears("sure: take back the change of mine")
        ears.type("1\n")
        await ears.hears("prsm: rejected: mine")


async def test_a_comment_is_on_rows_and_those_that_are_kept_go_at_once():
    app = await team()
    async with hearing(app) as ears:
        await ears.hears("selected: agent 1")
        ears.type("/comment 1 3 why?\n")
        await ears.hears("a comment needs a change, its rows and a text")
        ears.type("/changes\n")
        await ears.hears("change 2: b.md")
        ears.type("/comment 1 3 why?\n")
        await ears.hears("/lines 1 tells its rows first")
        ears.type("/lines 1\n/lines 2\n")
        await ears.hears("change 1: end", "change 2: end")
        ears.type("/comment 1 9 why?\n")
        await ears.hears("not sent: these rows are no lines of the file")
        ears.type("/comment 1 3-4 \x1b[200~why?\nand how?\x1b[201~\n")
        await ears.until(lambda: bool(app.prompts))
        [(agent, text, how)] = app.prompts
        assert (agent, how) == ("f", "inject")
        assert text == (
            "A comment on your change of `a.py`, line 5:\n```\n-old = 1\n+new = 1\n```\n"
            "why?\nand how?"
        )
        await ears.hears("prsm: sent to fixer, who made it")
        ears.type("/review\n")
        await ears.hears("no comment is kept; /keep keeps one")
        ears.type("/keep 1 5 one\n/keep 2 2 two\n/changes\n")
        await ears.hears("kept, not sent: line 6: one", "comments that are not sent: 2")
        assert list(ears.person.drafts()) == ["one", "two"]
        ears.type("/review\n")
        await ears.hears("review: line 6: one", "sure: send 2 comments: 1 to fixer, 1 to writer?")
        ears.type("1\n")
        await ears.until(lambda: len(app.prompts) == 3)
        assert {agent for agent, _, _ in app.prompts[1:]} == {"f", "w"}
        assert list(ears.person.drafts()) == []


async def test_what_a_restore_changes_is_told_before_it_is_asked_about():
    app = await team()
    app.keeps_files = True
    app.finish()
    app.restore_changes = [
        ChangedFile(path="shop/basket.py", change="modified"),
        ChangedFile(path="CHANGES.md", change="deleted"),
    ]
    async with hearing(app) as ears:
        await ears.hears("selected: agent 1")
        ears.type("/restore 1\n")
        await ears.hears("which snapshot? /snapshots tells their numbers")
        ears.type("/snapshot before the fix\n")
        await ears.hears("is taken")
        ears.type("/snapshots\n")
        await ears.hears("snapshot 1: manual, at ", ", before the fix")
        ears.type("/restore 1\n")
        await ears.hears("sure: restore snapshot 1?")
        told = [line for line in ears.lines if line.startswith("snapshot 1: ")]
        assert told[1:] == [
            "snapshot 1: a restore: 1 go, 1 change",
            "snapshot 1: shop/basket.py changes",
            "snapshot 1: CHANGES.md goes",
        ]
        ears.type("2\n")
        await ears.hears("prsm: not done")
        assert app.restored == []
        ears.type("/restore 1\n")
        await ears.until(lambda: ears.text.count("sure: restore snapshot 1?") == 2)
        ears.type("1\n")
        await ears.hears("prsm: restored ")
        assert len(app.restored) == 1
        ears.type("/undo\n")
        await ears.hears("sure: take back what was done to files last?")
        ears.type("1\n")
        await ears.until(lambda: app.restored == [])


async def test_a_line_that_was_begun_before_a_question_came_is_no_answer_to_it():
    app = await team()
    app.keeps_files = True
    app.finish()
    app.restore_changes = [ChangedFile(path="a.py", change="modified")]
    async with hearing(app) as ears:
        await ears.hears("selected: agent 1")
        ears.type("/snapshot one\n")
        await ears.hears("is taken")
        ears.type("/snapshots\n")
        await ears.hears("snapshot 1: manual")
        ears.type("/restore 1\n1")  # the 1 is typed before the question
        await ears.until(lambda: bool(ears.session.shelf.plans))
        await ears.until(lambda: ears.person._sure is not None)
        ears.type("\n")
        await ears.hears("not used: '1': what it was for has ended")
        assert app.restored == []


@pytest.mark.requirement("E83")
async def test_silence_is_told_as_a_line_once():
    app = await team()
    now = [10.0]
    async with hearing(app, clock=lambda: now[0]) as ears:
        await ears.hears("selected: agent 1")
        for seconds in (11.0, 41.0, 90.0):
            now[0] = seconds
            ears.person.tick()
        warned = [line for line in ears.lines if "nothing was heard" in line]
        assert warned == ["prsm: warning: nothing was heard from the agents for 30s"]


async def test_a_name_that_comes_is_told():
    app = await team()
    async with hearing(app) as ears:
        await ears.hears("selected: agent 1")
        [row] = await app.sessions.list()
        ears.session.take_name([replace(row, name="The blue door")])
        ears.person.changed()
        await ears.hears("session: it is called The blue door")


async def test_alt_enter_is_a_new_line_and_the_text_is_one_prompt():
    app = await team()
    async with hearing(app) as ears:
        await ears.hears("selected: agent 1")
        ears.keys.take("one\x1b\rtwo\r")
        await ears.until(lambda: bool(app.prompts))
        assert app.prompts == [("m", "one\ntwo", "inject")]
