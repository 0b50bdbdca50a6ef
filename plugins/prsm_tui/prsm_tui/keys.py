"""Every key of the screens, by place: bindings, help, documents and `frontends.tui.keys` are of it.

A key is named as Textual names it, `ctrl+k`, `pagedown`, `question_mark`; a person may write `PgDn`
and `?` as well. Nothing here knows Textual.
"""

from __future__ import annotations

import unicodedata
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Key(NamedTuple):
    """What a key does, by the name that it has in the configuration; `keys` with commas."""

    name: str
    keys: str
    does: str
    action: str = ""  # of Textual; blank: the widget sees to it by itself


CHANGES, DIFF, SNAPSHOTS, PAGE, PALETTE = (
    "at changes",
    "in the lines of a change",
    "at snapshots",
    "on a page",
    "among commands",
)
EVERYWHERE, SESSIONS, NEW, TREE, TRANSCRIPT, PROMPT, NEEDS_YOU, FILTER, HELP, SURE = (
    "everywhere",
    "in the list of sessions",
    "where a new session begins",
    "in the tree",
    "in a transcript",
    "where you type",
    "at what needs you",
    "while you type a filter",
    "in the help",
    "asked whether you are sure",
)

_TABLE: Mapping[str, Sequence[tuple[str, ...]]] = {
    EVERYWHERE: (
        ("app.requests", "f2", "what needs you: go there, and back", "app.needs_you"),
        ("app.changes", "f3", "what was changed: go there, and back", "app.place('changes')"),
        (
            "app.snapshots",
            "f4",
            "snapshots of the files: go there, and back",
            "app.place('snapshots')",
        ),
        ("app.sessions", "f5", "the list of sessions, of `prsm` alone", "app.sessions"),
        ("app.palette", "ctrl+p", "all commands, by a few letters", "app.place('palette')"),
        ("app.help", "f1", "the keys of this place", "app.help"),
        ("app.next", "tab", "the next pane"),
        ("app.previous", "shift+tab", "the pane before"),
        ("app.back", "escape", "one step back"),
        (
            "app.leave",
            "ctrl+c,ctrl+q",
            "leave, the second time; the first says what follows",
            "app.leave",
        ),
    ),
    SESSIONS: (
        ("sessions.down", "down,j", "the next session", "move(1)"),
        ("sessions.up", "up,k", "the session before", "move(-1)"),
        ("sessions.first", "home,g", "the first", "edge(0)"),
        ("sessions.last", "end,G", "the last", "edge(-1)"),
        ("sessions.open", "enter,l,right", "open it", "want('open')"),
        ("sessions.answer", "a", "answer what waits in it, and stay here", "want('answer')"),
        ("sessions.new", "n", "begin another one"),
        ("sessions.resume", "r", "go on with its run, which was cut off", "want('resume')"),
        ("sessions.stop", "K", "end its run as interrupted; asks first", "want('stop')"),
        ("sessions.rename", "R", "give it a name", "want('rename')"),
        ("sessions.fork", "f", "another one that begins as it is now", "want('fork')"),
        ("sessions.export", "x", "write it to a file", "want('export')"),
        ("sessions.delete", "D", "delete it for good; asks first", "want('delete')"),
        ("sessions.filter", "slash", "show only those that have these words"),
        ("sessions.help", "question_mark", "the keys of this place", "app.help"),
    ),
    NEW: (("new.back", "escape", "back; what you typed stays"),),
    TREE: (
        ("tree.down", "down,j", "the next agent", "move(1)"),
        ("tree.up", "up,k", "the agent before", "move(-1)"),
        ("tree.first", "home,g", "the first", "edge(0)"),
        ("tree.last", "end,G", "the last", "edge(-1)"),
        ("tree.open", "enter,l,right", "open the agent's transcript", "open"),
        ("tree.filter", "slash", "show only agents whose name, state or model has this"),
        ("tree.kill", "K", "kill the agent and all below it; asks first", "kill"),
        ("tree.type", "i", "type to the agent"),
        ("tree.help", "question_mark", "the keys of this place", "app.help"),
    ),
    TRANSCRIPT: (
        ("transcript.down", "down,j", "a line down", "scroll(1)"),
        ("transcript.up", "up,k", "a line up; at the top earlier pages are loaded", "scroll(-1)"),
        ("transcript.page_down", "pagedown,space", "a page down", "page(1)"),
        ("transcript.page_up", "pageup", "a page up", "page(-1)"),
        ("transcript.first", "home,g", "the beginning of what is loaded", "edge(0)"),
        ("transcript.last", "end,G", "the end, and follow what is new", "edge(-1)"),
        ("transcript.next_mark", "n", "the next thing that opens", "mark(1)"),
        ("transcript.previous_mark", "N", "the one before", "mark(-1)"),
        ("transcript.open", "enter", "unfold it, or open the agent that it spawned", "open"),
        (
            "transcript.filter",
            "slash",
            "show only what has these words; :calls, :texts and the like name kinds",
        ),
        ("transcript.copy", "y", "copy what is marked, or what the agent said last", "copy"),
        ("transcript.tree", "h,left", "the tree", "app.tree"),
        ("transcript.type", "i", "type to the agent"),
        ("transcript.help", "question_mark", "the keys of this place", "app.help"),
    ),
    PROMPT: (
        ("prompt.send", "enter", "send it"),
        ("prompt.new_line", "ctrl+j,shift+enter,alt+enter", "a new line"),
        ("prompt.older", "up", "on the first line: what you typed before"),
        ("prompt.newer", "down", "on the last line: what you typed after that"),
        (
            "prompt.complete",
            "tab",
            "behind @PATH, /COMMAND or a name: complete it; else the next pane",
        ),
        ("prompt.delivery", "ctrl+t", "how it is delivered: inject, queue or interrupt"),
        ("prompt.editor", "ctrl+g", "go on in your editor: $VISUAL or $EDITOR"),
        ("prompt.leave", "escape", "to the transcript; what you typed stays"),
    ),
    NEEDS_YOU: (
        ("requests.send", "enter", "give the answer that is typed"),
        ("requests.down", "down", "the next request", "app.request(1)"),
        ("requests.up", "up", "the request before", "app.request(-1)"),
        ("requests.page_down", "pagedown", "further down in what it is about"),
        ("requests.page_up", "pageup", "further up"),
        ("requests.back", "escape", "back to where you were"),
    ),
    CHANGES: (
        ("changes.down", "down,j", "the next change", "move(1)"),
        ("changes.up", "up,k", "the change before", "move(-1)"),
        ("changes.first", "home,g", "the first", "edge(0)"),
        ("changes.last", "end,G", "the last", "edge(-1)"),
        ("changes.open", "enter,l,right", "its lines", "open"),
        ("changes.pane", "tab,shift+tab", "the list, or the lines", "pane"),
        ("changes.accept", "a", "accept the change: it stays", "accept('one')"),
        (
            "changes.accept_all",
            "A",
            "accept all of its file, agent or turn; asks first",
            "accept('all')",
        ),
        ("changes.reject", "x", "reject the change: it is taken back; asks first", "reject('one')"),
        (
            "changes.reject_all",
            "X",
            "reject all of its file, agent or turn; asks first",
            "reject('all')",
        ),
        (
            "changes.comment",
            "c",
            "a comment on the line, or on those that are chosen, to the agent that wrote it",
            "comment",
        ),
        ("changes.send", "S", "send the comments that are kept, all at once; asks first", "send"),
        ("changes.why", "v", "why: of the change, or who made the line as it is now", "why"),
        ("changes.author", "t", "the call that made it, in the transcript of its agent", "author"),
        ("changes.by", "b", "by file, by agent, by turn", "by"),
        ("changes.all", "o", "also what is decided, or only what is not", "all"),
        ("changes.help", "question_mark", "the keys of this place", "app.help"),
        ("changes.back", "escape", "one step back"),
    ),
    DIFF: (
        ("diff.down", "down,j", "a line down", "move(1)"),
        ("diff.up", "up,k", "a line up", "move(-1)"),
        ("diff.page_down", "pagedown,space", "a page down", "page(1)"),
        ("diff.page_up", "pageup", "a page up", "page(-1)"),
        ("diff.more_down", "J,shift+down", "choose the next line, too", "choose(1)"),
        ("diff.more_up", "K,shift+up", "choose the line before, too", "choose(-1)"),
        ("diff.first", "home,g", "the first line", "edge(0)"),
        ("diff.last", "end,G", "the last line", "edge(-1)"),
        ("diff.next_part", "n,right_square_bracket", "the next part", "hunk(1)"),
        ("diff.previous_part", "N,left_square_bracket", "the part before", "hunk(-1)"),
        ("diff.left", "h,left", "mean the line before, of two beside each other", "side('left')"),
        ("diff.right", "l,right", "mean the line after", "side('right')"),
    ),
    SNAPSHOTS: (
        ("snapshots.down", "down,j", "the next snapshot", "move(1)"),
        ("snapshots.up", "up,k", "the snapshot before", "move(-1)"),
        (
            "snapshots.page_down",
            "pagedown,space",
            "further down in what a restore changes",
            "scroll(1)",
        ),
        ("snapshots.page_up", "pageup", "further up", "scroll(-1)"),
        ("snapshots.open", "enter", "what a restore would change; changes nothing", "open"),
        ("snapshots.restore", "r", "restore the files, and what is staged; asks first", "restore"),
        ("snapshots.undo", "u", "take back what was done to files last; asks first", "undo"),
        ("snapshots.new", "n", "a new one, of the files as they are", "new"),
        ("snapshots.help", "question_mark", "the keys of this place", "app.help"),
        ("snapshots.back", "escape", "one step back"),
    ),
    PAGE: (
        ("page.down", "down,j", "further down, or the next that can be picked", "move(1)"),
        ("page.up", "up,k", "further up, or the one before", "move(-1)"),
        ("page.page_down", "pagedown,space", "a page down", "page(1)"),
        ("page.page_up", "pageup", "a page up", "page(-1)"),
        ("page.pick", "enter", "pick what the cursor is on: a model", "pick"),
        ("page.again", "R", "look again", "again"),
        ("page.help", "question_mark", "the keys of this place", "app.help"),
        ("page.back", "escape", "one step back"),
    ),
    PALETTE: (
        ("palette.down", "down", "the next command", "move(1)"),
        ("palette.up", "up", "the command before", "move(-1)"),
        ("palette.pick", "enter", "do it, or type the words that it needs"),
        ("palette.back", "escape", "one step back"),
    ),
    FILTER: (
        ("filter.keep", "enter,down,up,tab", "keep it, and go on in what is left"),
        ("filter.drop", "escape", "show all again"),
    ),
    HELP: (
        ("help.down", "j", "a line down"),
        ("help.up", "k", "a line up"),
        ("help.back", "escape,q,question_mark", "back"),
    ),
    SURE: (("sure.yes", "y", "yes; any other key: no"),),
}
KEYS: Mapping[str, Sequence[Key]] = {
    place: [Key(*row) for row in rows] for place, rows in _TABLE.items()
}
# Where letters are of a text.
TYPED_IN = frozenset({EVERYWHERE, NEW, PROMPT, NEEDS_YOU, PALETTE, FILTER})

NO_KEY = "no_key"  # a name that no key has: for a keymap of Textual blank is the default

_MODIFIERS = ("alt", "ctrl", "shift", "super")
_SAME_KEY = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+left_square_bracket": "escape"}
_SHORT = {
    "esc": "escape",
    "pgdn": "pagedown",
    "pgup": "pageup",
    "del": "delete",
    "ins": "insert",
    "return": "enter",
}
_NAMED = (
    *("enter", "tab", "escape", "space", "backspace", "delete", "insert", "home", "end"),
    *("pageup", "pagedown", "up", "down", "left", "right"),
    *(f"f{number}" for number in range(1, 25)),
)
_SIGNS = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
_SIGN_OF = {
    _SIGNS.get(name, name): sign
    for sign in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    for name in [unicodedata.name(sign).lower().replace("-", "_").replace(" ", "_")]
}
_NAME_OF = {sign: name for name, sign in _SIGN_OF.items()}
_SHOWN = {"escape": "Esc", "pagedown": "PgDn", "pageup": "PgUp"}


class Keymap:
    """The keys as they are: the table, and over it what a person has set. Never changes."""

    def __init__(self, own: Mapping[str, Sequence[str]] | None = None) -> None:
        """Lay a person's keys over the table.

        Args:
            own: Keys by the name of what they do; none of them switches it off.

        Raises:
            ValueError: there is no such action or key, or a key would mean two things.
        """
        own = own or {}
        for name in own:
            _check_name(name)
        found = {name: tuple(map(parse_key, keys)) for name, keys in own.items()}
        self.is_own = bool(found)
        self._of: dict[str, Sequence[str]] = {
            key.name: found.get(key.name, key.keys.split(",")) for key in all_keys()
        }
        self._means = {
            place: {one: key.name for key in keys for one in self._of[key.name]}
            for place, keys in KEYS.items()
        }
        if not self._of["app.leave"]:
            raise ValueError("app.leave needs a key: nobody could leave")
        for place in KEYS:
            self._check(place, found)

    def of(self, name: str) -> Sequence[str]:
        """Return the keys of an action."""
        return self._of[name]

    def means(self, place: str, key: str) -> str:
        """Return the name of what a key does at a place, blank for nothing."""
        return self._means[place].get(key, "")

    def shown(self, name: str) -> str:
        """Return the keys of an action as a person reads them."""
        return ", ".join(map(shown_key, self._of[name])) or "none"

    def first(self, name: str) -> str:
        """Return the first key of an action as a person reads it, blank where it has none."""
        return next(map(shown_key, self._of[name]), "")

    def by_name(self) -> Mapping[str, str]:
        """Return all keys by the name of what they do, with commas, as Textual's keymaps are."""
        return {name: ",".join(keys) or NO_KEY for name, keys in self._of.items()}

    def _check(self, place: str, own: Mapping[str, Sequence[str]]) -> None:
        """Raise ValueError where a key that a person has set means something else, too."""
        # Those with an action come before whoever has the focus.
        before_all = [key for key in KEYS[EVERYWHERE] if key.action]
        rivals = [*KEYS[place], *(() if place == EVERYWHERE else before_all)]
        if place == DIFF:  # what the list has no key of the lines for is done from there, too
            of_lines = {one for key in KEYS[DIFF] for one in key.keys.split(",")}
            rivals += [key for key in KEYS[CHANGES] if not of_lines & set(key.keys.split(","))]
        owners: dict[str, str] = {}
        for key in rivals:
            for one in self._of[key.name]:
                other = owners.setdefault(one, key.name)
                if other != key.name and (key.name in own or other in own):
                    raise ValueError(
                        f"{shown_key(one)} would be both {other} and {key.name}: "
                        "give one of them another key"
                    )
                if place in TYPED_IN and key.name in own and is_letter(one):
                    raise ValueError(
                        f"{shown_key(one)} cannot be {key.name}: {place} it is a letter of a text"
                    )


def all_keys() -> Iterator[Key]:
    """Yield the whole table."""
    for keys in KEYS.values():
        yield from keys


def parse_key(text: str) -> str:
    """Return a key as Textual names it; raises ValueError for what is none, with the nearest."""
    if len(text) == 1:
        return _letter(text)
    before, _, last = text.strip().lower().rpartition("+")
    held = [one for one in before.split("+") if one]
    base = _SHORT.get(last, last) if len(last) > 1 else _letter(last or "+")
    unknown = [one for one in held if one not in _MODIFIERS]
    if unknown or not (len(base) == 1 or base in _NAMED or base in _SIGN_OF):
        raise ValueError(f"there is no key {text!r}{_nearest_key(text)}")
    key = "+".join([*sorted(held), base])
    if key in _SAME_KEY:
        same = shown_key(_SAME_KEY[key])
        raise ValueError(f"a terminal does not tell {shown_key(key)} from {same}: name that")
    return key


def shown_key(key: str) -> str:
    """Return a key as a person reads it: `PgDn`, `Ctrl+K`, `?`."""
    *held, base = key.split("+")
    known = _SHOWN.get(base) or _SIGN_OF.get(base)
    plain = base if len(base) == 1 and not held else base.capitalize()
    return "+".join([*(one.capitalize() for one in held), known or plain])


def is_letter(key: str) -> bool:
    """Return whether a key alone writes something."""
    return len(key) == 1 or key == "space" or key in _SIGN_OF


def table(places: Sequence[str] = tuple(KEYS), keymap: Keymap | None = None) -> Sequence[str]:
    """Return the keys of places as lines for a person."""
    keymap = keymap or Keymap()
    width = max(len(keymap.shown(key.name)) for place in places for key in KEYS[place])
    lines: list[str] = []
    for place in places:
        lines += ["", f"{place}:"] if lines else [f"{place}:"]
        lines += [f"  {keymap.shown(key.name):<{width}}  {key.does}" for key in KEYS[place]]
    return lines


def _letter(sign: str) -> str:
    if sign == " ":
        return "space"
    return _NAME_OF.get(sign, sign)


def _check_name(name: str) -> None:
    names = [key.name for key in all_keys()]
    if name not in names:
        near = get_close_matches(name, names, n=1, cutoff=0.5)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        raise ValueError(f"no key does {name!r}: {meant}")


def _nearest_key(text: str) -> str:
    known = [*_NAMED, *(f"ctrl+{letter}" for letter in "abcdefghjklnopqrstuvwxyz")]
    near = get_close_matches(text.lower(), known, n=1, cutoff=0.5)
    return f": did you mean {shown_key(near[0])}?" if near else ""
