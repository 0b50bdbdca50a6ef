"""Reads a page of markdown as a protocol: headings, lists and nothing else are its grammar.

Everything beside them is prose, and is not looked at: HTML and its comments, code, quotations.
What a person sees in the rendered page is what is read. All problems of a page are found at once.
"""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from prsm_protocols.page import (
    NOBODY,
    Guard,
    MasterRule,
    Page,
    Record,
    SessionRule,
    State,
    Transition,
    Within,
    seconds_of,
)
from prsm_protocols.problems import Problem, Weight, nearest
from prsm_protocols.tool_names import read_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Readers = dict[str, Callable[[str, int], Any]]

MAX_BYTES = 128 * 1024
MAX_STATES = 1000
MAX_NAME = 64  # characters; it is a file name, too
MAX_NAME_BYTES = 128
MAX_TEXT = 2000  # characters of a description, a condition or a message

_NAME = r"[^\W_](?:[\w.\-]*[^\W_])?"
_ARROW = r"\s*(?:→|->)\s*"
_TITLE = re.compile(rf"Protocol:\s*({_NAME})")
_STATE = re.compile(rf"({_NAME})(?:\s*:\s*(.*))?")
_MOVE = re.compile(rf"({_NAME}){_ARROW}({_NAME})(?:\s*:\s*(.*))?")
_WITHIN = re.compile(rf"(\d{{1,6}})\s*([smhd]){_ARROW}({_NAME})")
_GUARD = re.compile(r"context\s*(>=|>|<=|<|≥|≤)\s*(\d+(?:\.\d+)?)\s*(%?)")
_KEY = re.compile(r"([A-Za-z]+)\s*:\s*(.*)", re.DOTALL)
_OTHER_ARROW = re.compile(r"=>|⇒|⟶|-->|—>")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f]")
_TURNING = re.compile(r"[\u202a-\u202e\u2066-\u2069]")
Rule = TypeVar("Rule", bound=StrEnum)
_SIGNS = {"≥": ">=", "≤": "<="}
_LISTS = {"bullet_list", "ordered_list"}
_TEXTS = {"paragraph", "heading"}
_SECTIONS = ("States", "Transitions", "Messages", "Session", "Master", "Upgrades")


class Source(Record, frozen=True):
    """A page that was read: where each of its parts stands, and the text that it was read from.

    `lines` has numbers from 1: by `()` that of the title, by `(name,)` those of states, by
    `(name, "within")` those of time limits, by `(source, target)` those of transitions.
    """

    file: str
    text: str
    page: Page
    lines: dict[tuple[str, ...], int]
    problems: tuple[Problem, ...] = ()  # warnings


class Item(Record, frozen=True):
    """An item of a list: what it says, and the items of the list inside it."""

    line: int
    text: str
    inner: tuple[Item, ...] = ()


class _Section:
    """The nodes below a heading; lists and paragraphs in a quotation are prose."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.nodes: list[SyntaxTreeNode] = []

    @property
    def items(self) -> tuple[Item, ...]:
        lists = (node for node in self.nodes if node.type in _LISTS)
        return tuple(item for each in lists for item in _items_of(each))

    @property
    def words(self) -> list[Item]:
        """The texts that are in no list."""
        texts = (node for node in self.nodes if node.type in _TEXTS)
        return [Item(line=_line(node), text=_flat(node)) for node in texts]

    @property
    def has_code(self) -> bool:
        return any(each.type == "code_block" for node in self.nodes for each in node.walk())


def read_page(data: bytes | str, file: str) -> tuple[Source | None, tuple[Problem, ...]]:
    """Return a page and its warnings, or None and all that is wrong with it."""
    reader = _Reader(file)
    page = reader.read(data)
    problems = tuple(sorted(reader.problems, key=lambda each: each.line))
    if page is None:
        return None, problems
    source = Source(file=file, text=reader.text, page=page, lines=reader.lines, problems=problems)
    return source, problems


@lru_cache(1)
def parser() -> MarkdownIt:
    """Return the parser; links and images stay as they are written, for they mean nothing here."""
    return MarkdownIt("commonmark").disable(["link", "image", "autolink", "reference"])


class _Reader:
    """Reads one page; owns its problems, and the lines of what it has found."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.text = ""
        self.problems: list[Problem] = []
        self.lines: dict[tuple[str, ...], int] = {}

    def read(self, data: bytes | str) -> Page | None:
        text = self._decoded(data)
        if text is None:
            return None
        self.text = text
        nodes = SyntaxTreeNode(parser().parse(text)).children
        name = self._title(nodes)
        section = self._sections(nodes).get
        master = self._word(section("Master"), "a master", MasterRule.DELEGATE)
        page = Page(
            name=name,
            states=self._states(section("States")),
            transitions=self._transitions(section("Transitions")),
            messages=self._messages(section("Messages")),
            session=self._word(section("Session"), "a session", SessionRule.CONTINUE),
            upgrades=self._upgrades(section("Upgrades")),
            solo=master is MasterRule.SOLO,
        )
        is_wrong = any(problem.weight is Weight.ERROR for problem in self.problems)
        return None if is_wrong else page

    def _wrong(self, line: int, text: str) -> None:
        self.problems.append(Problem(file=self._file, line=line, text=text))

    def _decoded(self, data: bytes | str) -> str | None:
        raw = data.encode(errors="surrogatepass") if isinstance(data, str) else data
        if len(raw) > MAX_BYTES:
            self._wrong(1, f"the page has {len(raw)} bytes; {MAX_BYTES} are the most, so divide it")
            return None
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            self._wrong(line, f"byte {error.start} is no UTF-8; save the page as UTF-8")
            return None
        text = unicodedata.normalize("NFC", text).replace("\r\n", "\n").replace("\r", "\n")
        for kind, pattern in (("control", _CONTROL), ("direction", _TURNING)):
            if (found := pattern.search(text)) is not None:
                line = text.count("\n", 0, found.start()) + 1
                self._wrong(line, f"there is a {kind} character, U+{ord(found[0]):04X}; remove it")
        return None if self.problems else text

    def _title(self, nodes: Sequence[SyntaxTreeNode]) -> str:
        titles = [node for node in nodes if node.tag == "h1"]
        if not titles:
            self._wrong(1, "there is no title; begin with `# Protocol: NAME`")
            return ""
        text, line = _flat(titles[0]), _line(titles[0])
        for other in titles[1:]:
            what = f"a second title, {_short(_flat(other))}"
            self._wrong(_line(other), f"{what}; a page is one protocol: line {line}")
        found = _TITLE.fullmatch(text)
        if found is None:
            self._wrong(line, f"{_short(text)} is no title; write `# Protocol: NAME`")
            return ""
        self.lines[()] = line
        return self._name(found[1], line)

    def _sections(self, nodes: Sequence[SyntaxTreeNode]) -> dict[str, _Section]:
        names = {name.lower(): name for name in _SECTIONS}
        sections: dict[str, _Section] = {}
        section = _Section(line=1)
        for node in nodes:
            if node.tag not in {"h1", "h2"}:
                section.nodes.append(node)
                continue
            section = _Section(line=_line(node))
            title = _flat(node)
            name = names.get(title.rstrip(":").lower())
            if node.tag == "h1":
                continue
            if name in sections:
                first = sections[name].line
                self._wrong(section.line, f"a second section {name}; the first is in line {first}")
            elif name is not None:
                sections[name] = section
            elif near := nearest(title.capitalize(), _SECTIONS):
                self._wrong(section.line, f"{_short(title)} is no section{near}")
        return sections

    def _states(self, section: _Section | None) -> tuple[State, ...]:
        if section is None:
            self._wrong(1, "there are no states; list them under `## States` as `- name: what for`")
            return ()
        items = self._items(section, "`- name: description`")
        if len(items) > MAX_STATES:
            self._wrong(section.line, f"these are {len(items)} states; {MAX_STATES} are the most")
            return ()
        return tuple(state for item in items if (state := self._state(item)) is not None)

    def _items(self, section: _Section, shape: str) -> tuple[Item, ...]:
        items = section.items
        if not items:
            code = "; what is indented by four spaces or a tab is code"
            indented = code if section.has_code else ""
            self._wrong(section.line, f"nothing is listed here; write {shape}{indented}")
        return items

    def _state(self, item: Item) -> State | None:
        found = _STATE.fullmatch(item.text)
        if found is None:
            self._wrong(item.line, f"{_short(item.text)} is no state; write `- name: description`")
            return None
        name = self._once(self._name(found[1], item.line), item.line)
        readers: Readers = {"tools": self._tools, "message": self._text, "within": self._within}
        parts = self._parts(item, readers)
        if "within" in parts:
            lines = (each.line for each in item.inner if each.text.lower().startswith("within"))
            self.lines[name, "within"] = next(lines)
        given = {key: value for key, value in parts.items() if value is not None}
        return State(name=name, description=self._text(found[2] or "", item.line), **given)

    def _once(self, name: str, line: int) -> str:
        if (first := self.lines.setdefault((name,), line)) != line:
            self._wrong(line, f"a second state {name}; the first is in line {first}")
        return name

    def _parts(self, item: Item, readers: Readers) -> dict[str, Any]:
        """Return what the list inside an item says; an item of it without a key is prose."""
        parts: dict[str, Any] = {}
        for inner in item.inner:
            found = _KEY.fullmatch(inner.text)
            if found is None:
                continue
            key = found[1].lower()
            if key not in readers:
                near = nearest(key, readers) or f"; there are {', '.join(readers)}"
                self._wrong(inner.line, f"{key} is nothing that can be said of it{near}")
            elif key in parts:
                self._wrong(inner.line, f"{key} is said twice of it")
            else:
                parts[key] = readers[key](found[2], inner.line)
        return parts

    def _tools(self, text: str, line: int) -> tuple[str, ...] | None:
        tools, wrong, doubt = read_tools(text)
        if wrong:
            self._wrong(line, wrong)
        self.problems += [
            Problem(file=self._file, line=line, text=each, weight=Weight.WARNING) for each in doubt
        ]
        return tools

    def _within(self, text: str, line: int) -> Within | None:
        found = _WITHIN.fullmatch(text)
        if found is None or int(found[1]) == 0:
            self._wrong(line, f"{_short(text)} is no time limit; write `within: 30m -> state`")
            return None
        return Within(seconds=seconds_of(found[1], found[2]), to=self._name(found[3], line))

    def _guard(self, text: str, line: int) -> Guard | None:
        found = _GUARD.fullmatch(text)
        if found is None:
            self._wrong(line, f"{_short(text)} is no guard; write `guard: context >= 0.8`")
            return None
        share = float(found[2]) / (100 if found[3] else 1)
        guard = Guard(sign=_SIGNS.get(found[1], found[1]), share=share)
        if share > 1:
            self._wrong(line, f"{_short(text)}: the share of the context is from 0 to 1, or 100%")
        elif not guard.can_hold:
            self._wrong(line, f"{guard} can never hold; leave the transition out")
        return guard

    def _transitions(self, section: _Section | None) -> tuple[Transition, ...]:
        items = () if section is None else self._items(section, "`- a -> b: When …`")
        return tuple(move for item in items if (move := self._transition(item)) is not None)

    def _transition(self, item: Item) -> Transition | None:
        found = self._move(item, "a transition; write `- a -> b: When …`")
        if found is None:
            return None
        source, target = self._name(found[1], item.line), self._name(found[2], item.line)
        if (first := self.lines.setdefault((source, target), item.line)) != item.line:
            self._wrong(item.line, f"{source} -> {target} is said twice; first in line {first}")
        if source == target:
            self._wrong(item.line, f"{source} -> {target} is no move; leave it out")
        parts = self._parts(item, {"guard": self._guard})
        when = self._text(found[3] or "", item.line)
        return Transition(source=source, target=target, when=when, guard=parts.get("guard"))

    def _move(self, item: Item, what: str) -> re.Match[str] | None:
        found = _MOVE.fullmatch(item.text)
        if found is None:
            other = "; the arrow is → or ->" if _OTHER_ARROW.search(item.text) else ""
            self._wrong(item.line, f"{_short(item.text)} is not {what}{other}")
        return found

    def _messages(self, section: _Section | None) -> tuple[str, ...] | None:
        if section is None:
            return None
        names: list[str] = []
        for item in self._items(section, f"`- name` of an agent or a protocol, or `- {NOBODY}`"):
            found = _STATE.fullmatch(item.text)
            if found is None:
                self._wrong(item.line, f"{_short(item.text)} is no name of an agent or a protocol")
            else:
                names.append(self._name(found[1], item.line))
        if NOBODY in names and len(names) > 1:
            self._wrong(section.line, f"{NOBODY} stands beside others; leave it or them out")
        return tuple(dict.fromkeys(name for name in names if name != NOBODY))

    def _word(self, section: _Section | None, what: str, default: Rule) -> Rule:
        if section is None:
            return default
        said = [*section.items, *section.words]
        words = re.match(r"\w+", said[0].text) if said else None
        rules = type(default)
        if words is None or words[0].lower() not in set(rules):
            line = said[0].line if said else section.line
            self._wrong(line, f"{what} is one of: {', '.join(rules)}")
            return default
        return rules(words[0].lower())

    def _upgrades(self, section: _Section | None) -> tuple[tuple[str, str], ...]:
        pairs: dict[str, str] = {}
        for item in () if section is None else self._items(section, "`- old -> new`"):
            found = self._move(item, "an upgrade; write `- old -> new`")
            if found is None:
                continue
            old, new = self._name(found[1], item.line), self._name(found[2], item.line)
            if old in pairs:
                self._wrong(item.line, f"{old} is upgraded twice")
            self.lines[old, new, "upgrade"] = item.line
            pairs[old] = new
        return tuple(pairs.items())

    def _name(self, name: str, line: int) -> str:
        if len(name) > MAX_NAME or len(name.encode()) > MAX_NAME_BYTES:
            self._wrong(line, f"the name {_short(name)} is too long; {MAX_NAME} letters are fine")
        return name

    def _text(self, text: str, line: int) -> str:
        if len(text) > MAX_TEXT:
            self._wrong(line, f"this has {len(text)} characters; {MAX_TEXT} are the most")
        return text.strip()


def _items_of(listed: SyntaxTreeNode) -> Iterator[Item]:
    for item in listed.children:
        text, line = None, _line(item)
        inner: list[Item] = []
        for child in item.children:
            if child.type in _LISTS:
                inner += _items_of(child)
            elif child.type in _TEXTS and text is None:
                text, line = _flat(child), _line(child)
        yield Item(line=line, text=text or "", inner=tuple(inner))


def _flat(node: SyntaxTreeNode) -> str:
    """Return the words of a paragraph or a heading as they are seen, in one line."""
    parts = (
        " " if token.type in {"softbreak", "hardbreak"} else token.content
        for token in node.walk()
        if token.type not in {"inline", "html_inline"}
    )
    return " ".join("".join(parts).split())


def _line(node: SyntaxTreeNode) -> int:
    return node.map[0] + 1 if node.map else 1


def _short(text: str) -> str:
    return repr(text if len(text) <= MAX_NAME else text[: MAX_NAME - 1] + "…")
