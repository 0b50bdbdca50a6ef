"""Comments of a person on lines of changes: in which words, and to whom."""

from __future__ import annotations

import shutil
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prsm_files.session.commenting import Line, Recipient, Remark, Team, comment_text, send
from prsm_files.shadow.opening import Shadows

from plugins.prsm_files.tests.session.test_undoing import door, write
from prsm_core.door import Change, ChangeAuthor, Comment
from prsm_core.engine.control.remote import open_remote
from prsm_core.errors import ConfigError
from tests.engine import control_peers
from tests.engine.control_peers import serving
from tests.engine.harness import open_team

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def change(agent: str | None = "w", path: str = "src/a.py") -> Change:
    authors = () if agent is None else (ChangeAuthor(agent=agent, name=f"name of {agent}"),)
    return Change(
        change="c",
        path=path,
        folder="/",
        kind="modified",
        how="named",
        agent=agent,
        authors=authors,
        at=0.0,
        state="pending",
    )


@pytest.mark.requirement("D22")
@pytest.mark.parametrize("text", ["@property", "```", "x ```` y", "[bold]"])
def test_a_comment_has_file_line_and_text_which_is_fenced(text):
    remark = Remark(change(), [Line("+", text, None, 12)], "Why?")
    lines = comment_text(remark, to_author=True).split("\n")
    assert lines[0] == "A comment on your change of `src/a.py`, line 12:"
    assert lines[1] == lines[3]
    assert lines[1].strip("`") == ""
    assert lines[1] not in text
    assert lines[2:] == [f"+{text}", lines[1], "Why?"]
    gone = remark._replace(lines=[Line("-", text, 7, None)])
    other = comment_text(gone, to_author=False)
    assert other.startswith("A comment on the change of name of w of `src/a.py`, line 7, which was")


LINES = st.lists(st.tuples(st.sampled_from("+- "), st.integers(1, 50)), min_size=1, max_size=6)


@given(LINES)
def test_lines_are_told_by_their_numbers_as_they_are_now_or_were_where_all_are_gone(kinds):
    lines = [
        Line(sign, "x", None if sign == "+" else n, None if sign == "-" else n) for sign, n in kinds
    ]
    told = comment_text(Remark(change(path="f"), lines, "?"), to_author=True).split("\n")[0]
    stays = [n for sign, n in kinds if sign != "-"]
    counted = stays or [n for _, n in kinds]
    assert ("removed" in told) == (not stays)
    words = told.replace(",", "").replace(":", "").split()
    assert [int(one) for one in words if one.isdigit()] == sorted({min(counted), max(counted)})


@given(
    st.lists(st.sampled_from("wfx"), max_size=12), st.sets(st.sampled_from("mwf")), st.booleans()
)
async def test_each_comment_is_in_one_text_to_who_gets_it_or_is_left_with_a_reason(
    authors, ended, is_running
):
    said: dict[str | None, str] = {}

    async def say(agent, text, delivery):
        assert agent not in said
        said[agent] = text
        return delivery

    parents = {"m": None, "w": "m", "f": "m"}
    team = Team(parents, set("mwf") - ended, is_running)
    remarks = [
        Remark(change(None if agent == "x" else agent), (), f"text {place}.")
        for place, agent in enumerate(authors)
    ]
    sent = await send(remarks, team, say, "queue")
    assert sorted(place for one in sent for place in one.comments) == list(range(len(authors)))
    for one in sent:
        assert (one.how is None) == (one.why is not None)
        for place in one.comments:
            to = team.recipient(remarks[place].change)
            assert to == Recipient(one.agent, one.why)
            assert one.why is not None or f"text {place}." in said[one.agent]
        if one.agent is None and one.why is None:
            assert not is_running


async def test_what_keeps_a_comment_from_its_agent_is_told_and_the_others_are_sent():
    async def say(agent, text, delivery):
        if agent == "w":
            raise ConfigError("it has ended just now", hint="wait")
        return "queued"

    team = Team({"w": None, "f": None}, {"w", "f"}, is_running=True)
    sent = await send([Remark(change(one), (), "?") for one in "wf"], team, say, "queue")
    assert [(one.agent, one.how, one.why) for one in sent] == [
        ("w", None, "it has ended just now; wait"),
        ("f", "queued", None),
    ]


@needs_git
@pytest.mark.requirement("D22")
async def test_an_agent_at_work_is_told_by_any_process_and_once_it_has_ended_its_master(tmp_path):
    told: dict[str, Any] = {}

    async def comment(app, **lines):
        [found] = [one for one in await app.changes.list() if one.path == "a"]
        [sent] = await app.changes.comment(
            [Comment(change=found.change[:6], text="why?", **lines)], "queue"
        )
        return sent

    async def first(agent):
        await write(agent, team, "a", "one\ntwo\n")
        async with (
            serving(tmp_path / "state", door(team)),
            open_remote(tmp_path / "state", control_peers.SESSION) as app,
        ):
            told["here"] = await comment(app, new=(2, 2))
            for lines in ({"new": (9, 9)}, {"old": (1, 2)}):
                with pytest.raises(ConfigError) as refused:
                    await comment(app, **lines)
                assert refused.value.code == "no_such_line"
        await agent.call("wait_for_message")
        await agent.complete()

    shadows = Shadows(state=tmp_path / "state", data=tmp_path / "data")
    opened = partial(open_team, tmp_path, shadows=shadows, on_ask="allow", check=False)
    async with opened() as team:
        app = door(team)
        assert (await team.run("begin", master=first)).status == "completed"
        here = told["here"]
        assert (here.comments, here.how, here.why) == ((0,), "queued", None)
        assert here.text == "A comment on your change of `a`, line 2:\n```\n+two\n```\nwhy?"
        sent = await comment(app)
        assert (sent.agent, sent.how) == (None, "follow_up")
        await team.seen("run_started", task=sent.text)
        assert await app.runs.interrupt()
    assert sent.text == "A comment on the change of master of `a`:\nwhy?"
