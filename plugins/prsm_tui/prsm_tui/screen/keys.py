"""Every key with what it does: the bindings, the help and the README are made of this table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from textual.binding import Binding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.binding import BindingType


class Key(NamedTuple):
    """A key, as Textual names it (several with commas), as a person reads it, and what it does."""

    keys: str
    shown: str
    does: str
    action: str = ""  # blank: the widget sees to it by itself
    has_priority: bool = False


EVERYWHERE, TREE, TRANSCRIPT, PROMPT, NEEDS_YOU = (
    "everywhere",
    "in the tree",
    "in a transcript",
    "where you type",
    "at what needs you",
)

KEYS: Mapping[str, Sequence[Key]] = {
    EVERYWHERE: (
        Key("f2", "F2", "what needs you: go there, and back", "app.needs_you", True),
        Key("f1", "F1", "the keys of this place", "app.help", True),
        Key("tab", "Tab", "the next pane"),
        Key("shift+tab", "Shift+Tab", "the pane before"),
        Key("escape", "Esc", "one step back"),
        Key(
            "ctrl+c,ctrl+q", "Ctrl+C twice", "leave; the first says what follows", "app.leave", True
        ),
    ),
    TREE: (
        Key("down,j", "Down, j", "the next agent", "move(1)"),
        Key("up,k", "Up, k", "the agent before", "move(-1)"),
        Key("home,g", "Home, g", "the first", "edge(0)"),
        Key("end,G", "End, G", "the last", "edge(-1)"),
        Key("enter,l,right", "Enter, l", "open the agent's transcript", "open"),
        Key("slash", "/", "show only agents whose name, state or model has this"),
        Key("K", "K", "kill the agent and all below it; asks first", "kill"),
        Key("i", "i", "type to the agent"),
        Key("question_mark", "?", "the keys of this place", "app.help"),
    ),
    TRANSCRIPT: (
        Key("down,j", "Down, j", "a line down", "scroll(1)"),
        Key("up,k", "Up, k", "a line up; at the top earlier pages are loaded", "scroll(-1)"),
        Key("pagedown,space", "PgDn, Space", "a page down", "page(1)"),
        Key("pageup", "PgUp", "a page up", "page(-1)"),
        Key("home,g", "Home, g", "the beginning of what is loaded", "edge(0)"),
        Key("end,G", "End, G", "the end, and follow what is new", "edge(-1)"),
        Key("n", "n", "the next thing that opens", "mark(1)"),
        Key("N", "N", "the one before", "mark(-1)"),
        Key("enter", "Enter", "unfold it, or open the agent that it spawned", "open"),
        Key("y", "y", "copy what is marked, or what the agent said last", "copy"),
        Key("h,left", "h, Left", "the tree", "app.tree"),
        Key("i", "i", "type to the agent"),
        Key("question_mark", "?", "the keys of this place", "app.help"),
    ),
    PROMPT: (
        Key("enter", "Enter", "send it"),
        Key("ctrl+j,shift+enter,alt+enter", "Ctrl+J", "a new line"),
        Key("up", "Up", "on the first line: what you typed before"),
        Key("down", "Down", "on the last line: what you typed after that"),
        Key("tab", "Tab", "behind @PATH, /COMMAND or a name: complete it; else the next pane"),
        Key("ctrl+t", "Ctrl+T", "how it is delivered: inject, queue or interrupt"),
        Key("escape", "Esc", "to the transcript; what you typed stays"),
    ),
    NEEDS_YOU: (
        Key("enter", "Enter", "give the answer that is typed"),
        Key("down", "Down", "the next request", "app.request(1)"),
        Key("up", "Up", "the request before", "app.request(-1)"),
        Key("pagedown", "PgDn", "further down in what it is about"),
        Key("pageup", "PgUp", "further up"),
        Key("escape", "Esc", "back to where you were"),
    ),
}


def bindings(place: str) -> list[BindingType]:
    """Return the bindings of a place."""
    return [
        Binding(key.keys, key.action, key.does, show=False, priority=key.has_priority)
        for key in KEYS[place]
        if key.action
    ]


def table(places: Sequence[str] = tuple(KEYS)) -> Sequence[str]:
    """Return the keys of places as lines for a person."""
    width = max(len(key.shown) for place in places for key in KEYS[place])
    lines: list[str] = []
    for place in places:
        lines += ["", f"{place}:"] if lines else [f"{place}:"]
        lines += [f"  {key.shown:<{width}}  {key.does}" for key in KEYS[place]]
    return lines
