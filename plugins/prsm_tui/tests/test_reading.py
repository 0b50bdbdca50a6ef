"""Where somebody reads and what they look for is of each agent, and stays as they left it."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from prsm_testing import ScriptedApp
from prsm_tui.model.blocks import Asked, Call, Changed, Ending, Note, Plan, Prompt, Said, Thought
from prsm_tui.screen.transcript import KINDS, Sifting, read_sieve

from plugins.prsm_tui.tests.scenes import watching
from prsm_core.interfaces.frontend import RunOptions

_LINES = re.compile(r"\w+ \d+\.")


def says(app, agent, numbers):
    for number in numbers:
        told: dict[str, Any] = {"turn": "t", "role": "assistant", "message": number + 1}
        app.say("message_completed", agent, text=f"{agent} {number}.", **told)


async def two(app, eyes):
    """Have a master and a worker, each of which has said sixty lines."""
    app.spawn()
    app.spawn("w", "writer", "m")
    says(app, "m", range(60))
    says(app, "w", range(60))
    await eyes.sees("m 59.", "writer")


def seen(eyes):
    return _LINES.findall(eyes.text)


async def go_to(eyes, name):
    eyes.tui.panes.go_to("prompt")
    await eyes.type(f"/open {name}\n")
    await eyes.sees(f"to {name}")
    eyes.tui.panes.go_to("transcript")


async def test_where_one_reads_is_each_agents_own_whatever_comes_meanwhile():
    app = ScriptedApp()
    async with watching(app, size=(120, 30)) as eyes:
        await two(app, eyes)
        eyes.tui.panes.go_to("transcript")
        await eyes.press("pageup", "pageup", "k")
        await eyes.until(lambda: "m 59." not in eyes.text)
        before = seen(eyes)
        await go_to(eyes, "writer")
        await eyes.sees("w 59.")
        assert "new rows" not in eyes.text
        await eyes.press("pageup")
        says(app, "m", range(60, 67))
        says(app, "w", range(60, 63))
        await eyes.sees("3 new rows below")
        of_writer = seen(eyes)
        await go_to(eyes, "master")
        await eyes.sees("7 new rows below")
        assert seen(eyes) == before
        await eyes.press("end")
        await eyes.sees("m 66.")
        await go_to(eyes, "writer")
        await eyes.sees("3 new rows below")
        assert seen(eyes) == of_writer
        await go_to(eyes, "master")
        says(app, "m", [67])
        await eyes.sees("m 67.")


async def test_another_width_leaves_the_line_where_somebody_reads():
    app = ScriptedApp()
    async with watching(app, size=(120, 30)) as eyes:
        app.spawn()
        for number in range(40):
            text = f"m {number}. " + "a few words that fill rows " * 9
            told: dict[str, Any] = {"turn": "t", "role": "assistant", "message": number + 1}
            app.say("message_completed", "m", text=text, **told)
        await eyes.sees("m 39.")
        eyes.tui.panes.go_to("transcript")
        await eyes.press("home", "pagedown", "pagedown", "pagedown")
        first = next(line for line in seen(eyes))
        for width in (60, 200, 100, 40, 120):
            await eyes.pilot.resize_terminal(width, 30)
            await eyes.until(lambda: eyes.text.splitlines()[5:], "rows")
            await eyes.until(lambda: seen(eyes)[:1] == [first], f"{first} at {width} columns")


async def test_what_shrinks_above_does_not_move_what_is_read():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        told: dict[str, Any] = {"call": "c", "tool": "Bash", "arguments": {"command": "make"}}
        app.say("tool_call_started", "m", **told)
        app.say("tool_output_delta", "m", live=True, call="c", at=0, text="1\n2\n3\n4\n5\n")
        says(app, "m", range(60))
        await eyes.sees("m 59.")
        eyes.tui.panes.go_to("transcript")
        await eyes.press("pageup")
        before = seen(eyes)
        assert "m 59." not in before
        app.say("tool_call_finished", "m", call="c", status="completed", result="done")
        says(app, "m", [60])
        await eyes.sees("1 new row below")
        assert seen(eyes) == before


async def test_a_page_in_front_is_nothing_new():
    app = ScriptedApp(RunOptions(task=None))
    await app.runs.start("count")
    app.spawn()
    says(app, "m", range(450))
    async with watching(app) as eyes:
        await eyes.sees("m 449.")
        eyes.tui.panes.go_to("transcript")
        await eyes.press("pageup")
        says(app, "m", range(450, 454))
        await eyes.sees("4 new rows below")
        model = eyes.session.agents["m"].transcript
        while not model.is_whole or "m 0." not in eyes.text:
            await eyes.press("home", "up")
        await eyes.until(lambda: "4 new rows below" in eyes.text)
        assert eyes.tui.panes.transcript.new == 4


async def test_what_was_let_go_meanwhile_comes_again_where_it_was_read():
    app = ScriptedApp(RunOptions(task=None))
    await app.runs.start("count")
    app.spawn()
    app.spawn("w", "writer", "m")
    says(app, "m", range(60))
    async with watching(app) as eyes:
        await eyes.sees("m 59.")
        eyes.tui.panes.go_to("transcript")
        await eyes.press("pageup", "pageup")
        before = seen(eyes)
        await go_to(eyes, "writer")
        says(app, "m", range(60, 700))
        model = eyes.session.agents["m"].transcript
        await eyes.until(lambda: model.blocks[0].text > "m 300.", "blocks that were let go")
        await go_to(eyes, "master")
        await eyes.until(lambda: seen(eyes) == before, before)
        await eyes.sees("640 new rows below")


async def test_no_page_up_passes_over_a_line():
    app = ScriptedApp()
    async with watching(app) as eyes:
        app.spawn()
        says(app, "m", range(280))
        await eyes.sees("m 279.")
        eyes.tui.panes.go_to("transcript")
        passed = set(seen(eyes))
        while "m 0." not in passed:
            before = seen(eyes)
            await eyes.press("pageup")
            await eyes.until(lambda before=before: seen(eyes) != before, "an earlier page")
            passed.update(seen(eyes))
        assert passed == {f"m {number}." for number in range(280)}


async def test_a_filter_shows_what_has_its_words_and_kinds_and_is_each_agents_own():
    app = ScriptedApp()
    async with watching(app, size=(140, 30)) as eyes:
        await two(app, eyes)
        told: dict[str, Any] = {"tool": "Bash", "arguments": {"command": "make 59. Thing"}}
        app.say("tool_call_started", "m", call="c", **told)
        await eyes.sees("make 59.")
        eyes.tui.panes.go_to("transcript")
        await eyes.press("pageup", "pageup")
        before = seen(eyes)
        await eyes.type("/59.")
        await eyes.sees("filter: 59._ · 2 of 61 · kinds: :prompts :texts", "make 59.", "m 59.")
        assert "m 58." not in eyes.text
        await eyes.type(" THING\n")
        await eyes.sees("filter: 59. THING · 1 of 61", "make 59.")
        assert not any(line.startswith("m ") for line in seen(eyes))
        await go_to(eyes, "writer")
        assert "filter:" not in eyes.text
        await eyes.type("/:nosuch")
        await eyes.sees("0 of 60", "no kind is :nosuch")
        await eyes.press("tab")
        await go_to(eyes, "master")
        await eyes.sees("filter: 59. THING · 1 of 61")
        says(app, "m", [60, 59])
        await eyes.sees("1 of 63")
        await eyes.type("/:calls\n")
        await eyes.sees("filter: :calls · 1 of 63")
        await eyes.press("escape")
        await eyes.until(lambda: "filter:" not in eyes.text)
        assert eyes.tui.panes.pane == "transcript"
        assert seen(eyes) == before
        await eyes.sees("2 new rows below")
        await eyes.press("escape")
        assert eyes.tui.panes.pane == "tree"


async def test_what_is_marked_under_a_filter_is_seen_among_the_rest_once_it_is_gone():
    app = ScriptedApp()
    async with watching(app, size=(140, 30)) as eyes:
        app.spawn()
        says(app, "m", range(40))
        app.say("tool_call_started", "m", call="c", tool="Bash", arguments={"command": "make it"})
        says(app, "m", range(40, 90))
        await eyes.sees("m 89.")
        eyes.tui.panes.go_to("transcript")
        await eyes.type("/make\n")
        await eyes.sees("filter: make · 1 of 91")
        await eyes.press("n", "escape")
        await eyes.sees(">>Bash  make it", "m 39.", "m 40.")


BLOCKS = st.one_of(
    st.builds(Prompt, text=st.text("aBc ", max_size=6)),
    st.builds(Said, text=st.text("aBc ", max_size=6)),
    st.builds(Thought, text=st.text("aBc ", max_size=6)),
    st.builds(Call, tool=st.just("Bash"), subject=st.text("aBc", max_size=6)),
    st.builds(Note, text=st.text("aBc ", max_size=6)),
    st.builds(Plan, entries=st.just((("pending", "a b"),))),
    st.builds(Changed, path=st.just("a/b.c"), kind=st.just("modified")),
    st.builds(Asked, text=st.just("asks b"), outcome=st.just("once")),
    st.builds(Ending, status=st.just("completed"), summary=st.text("aBc", max_size=6)),
)
FILTERS = st.lists(st.sampled_from(["a", "B", "ab", ":calls", ":te", ":n", ":zz", "modi"]))


@settings(max_examples=30)
@given(steps=st.lists(st.tuples(FILTERS, st.lists(BLOCKS, max_size=4), st.booleans())))
def test_sifting_again_and_again_is_sifting_once(steps):
    sifting, blocks = Sifting(), []
    for words, more, changes in steps:
        blocks += more
        if changes and blocks and isinstance(blocks[0], Said):
            blocks[0].text += "b"
            blocks[0].change()
        sieve = read_sieve(" ".join(words))
        assert sifting.sift(sieve, blocks) == [block for block in blocks if sieve.passes(block)]
    assert sifting.sift(read_sieve(""), blocks) == blocks


def test_each_kind_of_block_has_a_name():
    from prsm_tui.model import blocks

    kinds = {
        kind
        for kind in vars(blocks).values()
        if isinstance(kind, type) and issubclass(kind, blocks.Block) and kind is not blocks.Block
    }
    assert set(KINDS.values()) == kinds
