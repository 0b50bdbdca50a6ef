"""The table of keys, keys of one's own, and the errors that say what would be right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import ValidationError, convert
from prsm_testing import ScriptedApp
from prsm_tui.keys import KEYS, all_keys, parse_key, shown_key
from prsm_tui.settings import TuiSettings

from plugins.prsm_tui.tests.scenes import watching

NAMES = [key.name for key in all_keys()]


def test_every_action_has_one_name_and_a_key_means_one_thing_at_a_place():
    assert len(NAMES) == len(set(NAMES))
    for place, keys in KEYS.items():
        named = [one for key in keys for one in key.keys.split(",")]
        assert len(named) == len(set(named)), place
        assert all(parse_key(shown_key(one)) == one for one in named), place


@pytest.mark.parametrize(
    ("typed", "key", "shown"),
    [
        ("?", "question_mark", "?"),
        ("PgDn", "pagedown", "PgDn"),
        ("Ctrl+K", "ctrl+k", "Ctrl+K"),
        ("shift+ctrl+up", "ctrl+shift+up", "Ctrl+Shift+Up"),
        ("K", "K", "K"),
        ("+", "plus", "+"),
        ("ctrl++", "ctrl+plus", "Ctrl++"),
        ("question_mark", "question_mark", "?"),
        (" ", "space", "Space"),
        ("F12", "f12", "F12"),
    ],
)
def test_a_key_is_read_as_a_person_writes_it(typed, key, shown):
    assert (parse_key(typed), shown_key(key)) == (key, shown)


@given(st.sampled_from(["", "ctrl+", "alt+", "alt+ctrl+shift+"]), st.characters(codec="ascii"))
def test_what_is_shown_of_a_key_is_read_as_that_key(held, letter):
    try:
        key = parse_key(held + letter)
    except ValueError:
        return
    assert parse_key(shown_key(key)) == key


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"tree.kil": "x"}, "did you mean tree.kill?"),
        ({"tree.kill": "pagdown"}, "did you mean PgDn?"),
        ({"tree.kill": "hyper+x"}, "no key 'hyper+x'"),
        ({"tree.kill": "j"}, "J would be both tree.down and tree.kill"),
        ({"tree.kill": "f2"}, "F2 would be both"),
        ({"prompt.delivery": "x"}, "it is a letter of a text"),
        ({"app.requests": "space"}, "it is a letter of a text"),
        ({"tree.kill": "ctrl+m"}, "does not tell Ctrl+M from Enter"),
        ({"app.leave": []}, "nobody could leave"),
    ],
)
def test_a_mistake_is_named_with_what_would_be_right(keys, said):
    with pytest.raises(ValidationError) as told:
        convert({"keys": keys}, TuiSettings)
    assert said.lower() in str(told.value).lower()


def test_two_actions_may_change_places():
    keymap = convert({"keys": {"tree.down": "k", "tree.up": ["j", "up"]}}, TuiSettings).keymap
    assert (keymap.of("tree.down"), keymap.shown("tree.up")) == (("k",), "j, Up")


OWN = {
    "tree.down": "t",
    "tree.type": "y",
    "tree.filter": "f9",
    "tree.kill": [],
    "app.help": "f8",
    "app.next": "ctrl+n",
    "prompt.send": "ctrl+s",
    "requests.send": "f7",
    "sure.yes": "Y",
}


async def test_keys_of_ones_own_do_what_the_table_says_and_the_old_ones_no_more():
    app = ScriptedApp()
    app.session = "s"
    keymap = convert({"keys": OWN}, TuiSettings).keymap
    async with watching(app, keymap=keymap) as eyes:
        run = await app.started()
        app.spawn()
        app.spawn("w", "w1", "m")
        await eyes.sees("w1", "Ctrl+S sends")
        await eyes.type("hello\n")
        assert (app.prompts, eyes.tui.panes.prompt.text) == ([], "hello\n")
        await eyes.press("ctrl+s")
        await eyes.until(lambda: app.prompts, "the prompt")
        await eyes.press("ctrl+n")
        assert eyes.tui.panes.pane == "tree"
        await eyes.press("j")
        assert eyes.tui.chosen == "m"
        await eyes.press("t")
        assert eyes.tui.chosen == "w"
        await eyes.press("K", "i")
        assert eyes.tui.panes.pane == "tree"
        await eyes.press("f8")
        await eyes.sees("t  ", "F9  ", "F8  ")
        await eyes.press("escape", "y")
        assert eyes.tui.panes.pane == "prompt"
        app.say("question_asked", "m", request="q1", question="Which?", options=["red"])
        await eyes.press("f2")
        await eyes.sees("Which?", "the answer, then F7")
        await eyes.type("1\n")
        assert app.answers == []
        await eyes.press("f7")
        await eyes.until(lambda: app.answers, "the answer")
        app.finish()
        await run.result()
