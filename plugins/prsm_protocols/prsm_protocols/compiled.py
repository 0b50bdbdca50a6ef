"""Pages as machines: a set of pages is one, and a protocol is a page with all it leads to.

A target that stands on another page of the set leads there; one that is declared nowhere is a state
without an end of its own, and a warning. What is compiled never changes: it is known by its hash,
which is made of the canonical text of the page and of each one that it leads to. Mermaid draws it.
"""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from prsm_core import Machine
from prsm_protocols.page import State, duration, printed
from prsm_protocols.problems import Problem, ProtocolError, Weight, nearest
from prsm_protocols.tool_names import SAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prsm_protocols.page import Page, Transition
    from prsm_protocols.reading import Source

HASH_DIGITS = 12  # of the hash, as labels have it
WITHIN = "within"  # the trigger of the moves that time makes
# What Mermaid would take for a mark of its own, within the text of a label.
_DIAGRAM_MARKS = re.compile(r"[\"#;:<>{}\[\]`\\]")
_FORM = "prsm protocol 1\n"  # what a hash begins with: another canonical form has another one


class Move(NamedTuple):
    """A transition from where an agent is, and the page of its target."""

    transition: Transition
    page: str


class Compiled:
    """One page, compiled: a machine of its states, and on which page each target stands."""

    def __init__(self, page: Page, homes: Mapping[str, str]) -> None:
        self.page = page
        self._homes = homes
        named = (*(each.source for each in page.transitions), *_targets(page))
        self.states = {name: State(name=name) for name in named if name not in homes}
        self.states |= {state.name: state for state in page.states}
        self.machine: Machine[str] = Machine(
            f"protocol {page.name}",
            _table((each.source, each.target) for each in page.transitions),
            triggers={WITHIN: _times(page)},
        )
        self._moves: dict[str, list[Move]] = {}
        for each in page.transitions:
            self._moves.setdefault(each.source, []).append(Move(each, self.home(each.target)))

    def home(self, state: str) -> str:
        """Return the name of the page that a state stands on."""
        return self._homes.get(state, self.page.name)

    def moves(self, state: str) -> Sequence[Move]:
        """Return the transitions that leave a state, in the order of the page."""
        return self._moves.get(state, ())

    def allows(self, state: str, tool: str) -> bool:
        """Return whether a state lists a tool, or lists none and so allows all."""
        tools = self.states[state].tools
        return tools is None or tool in tools or SAME.get(tool) in tools

    def find(self, state: str, target: str) -> Move:
        """Return a transition; raises InvalidTransitionError, which names the machine."""
        self.machine.validate(state, target)
        return next(move for move in self.moves(state) if move.transition.target == target)


class Protocol:
    """A page and all that it leads to; `id` is NAME@ and the first digits of its hash."""

    def __init__(
        self, name: str, pages: Mapping[str, Compiled], sources: Mapping[str, str]
    ) -> None:
        self.name = name
        self.pages = pages
        self.start = pages[name]  # the page that it is named after
        self.sources = sources  # the text of each page as it was written
        self._led: dict[str, Protocol] = {}

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the canonical text, in hexadecimal digits."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()

    @cached_property
    def canonical(self) -> str:
        """What the hash is made of."""
        texts = (printed(self.pages[name].page) for name in sorted(self.pages))
        return f"{_FORM}{self.name}\n\n" + "\n".join(texts)

    @cached_property
    def hash(self) -> str:
        """The digits of the hash that labels have."""
        return self.digest[:HASH_DIGITS]

    @cached_property
    def id(self) -> str:
        """What the label of an agent says."""
        return f"{self.name}@{self.hash}"

    @cached_property
    def has_guards(self) -> bool:
        """Whether any of its moves depends on what an agent has used."""
        pages = self.pages.values()
        return any(each.guard is not None for one in pages for each in one.page.transitions)

    def led_to(self, name: str) -> Protocol:
        """Return the protocol of another page that this one leads to."""
        if name == self.name:
            return self
        if name not in self._led:
            self._led[name] = _closure(name, self.pages, self.sources)
        return self._led[name]


class ProtocolSet:
    """All pages of a folder, compiled together."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._texts = {source.page.name: source.text for source in sources}
        pages = [source.page for source in sources]
        homes = _homes(pages)
        self._pages = {page.name: Compiled(page, _of_page(page, homes)) for page in pages}
        self._protocols: dict[str, Protocol] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the protocols, in order."""
        return tuple(sorted(self._pages))

    def get(self, name: str) -> Protocol | None:
        """Return a protocol by its name, None where there is none."""
        if name not in self._pages:
            return None
        if name not in self._protocols:
            self._protocols[name] = _closure(name, self._pages, self._texts)
        return self._protocols[name]


def compile_pages(
    sources: Sequence[Source], *, strict: bool = False
) -> tuple[ProtocolSet, tuple[Problem, ...]]:
    """Compile pages as one set; return it, and what is odd about it.

    Raises ProtocolError for pages that contradict each other, and with `strict` for every warning.
    """
    problems = sorted(
        (*(each for source in sources for each in source.problems), *_found(sources)),
        key=lambda each: (each.file, each.line),
    )
    least = Weight.WARNING if strict else Weight.ERROR
    if bad := [problem for problem in problems if problem.weight >= least]:
        raise ProtocolError(bad)
    return ProtocolSet(sources), tuple(problems)


def _closure(name: str, pages: Mapping[str, Compiled], texts: Mapping[str, str]) -> Protocol:
    reached, todo = {name}, [name]
    while todo:
        page = pages[todo.pop()]
        new = {page.home(target) for target in _targets(page.page)} - reached
        reached |= new
        todo += new
    return Protocol(
        name,
        {each: pages[each] for each in reached},
        {each: texts[each] for each in reached if each in texts},
    )


def _homes(pages: Iterable[Page]) -> dict[str, list[str]]:
    """Return by state the pages that declare it; that of its own name comes first."""
    homes: dict[str, list[str]] = {}
    for page in pages:
        for state in page.states:
            homes.setdefault(state.name, []).append(page.name)
    return {name: sorted(found, key=lambda each: each != name) for name, found in homes.items()}


def _of_page(page: Page, homes: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return on which page each state stands that this one leads to, where that is another."""
    own = {state.name for state in page.states}
    return {name: homes[name][0] for name in _targets(page) if name not in own and name in homes}


def _targets(page: Page) -> Iterator[str]:
    yield from (each.target for each in page.transitions)
    yield from (state.within.to for state in page.states if state.within is not None)


def _times(page: Page) -> list[tuple[str, str]]:
    return [(state.name, state.within.to) for state in page.states if state.within is not None]


def _table(pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    table: dict[str, set[str]] = {}
    for source, target in pairs:
        table.setdefault(source, set()).add(target)
    return table


def _found(sources: Sequence[Source]) -> Iterator[Problem]:
    homes = _homes(source.page for source in sources)
    files: dict[str, str] = {}
    for source in sources:
        name, line = source.page.name, source.lines[()]
        if (first := files.setdefault(name, source.file)) != source.file:
            yield _problem(source, line, f"a second protocol {name}; the first is in {first}")
        stem = source.file.rpartition("/")[2].removesuffix(".md")
        if source.file.endswith(".md") and stem != name:
            text = f"the protocol {name} is looked for in {name}.md; name the file so"
            yield _problem(source, line, text, Weight.WARNING)
        others = {target for one in sources if one is not source for target in _targets(one.page)}
        yield from _links(source, homes)
        yield from _reach(source, others)


def _links(source: Source, homes: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Yield what is wrong with the states that a page names and does not declare."""
    own = {state.name for state in source.page.states}
    for name, line in _named(source):
        if name in own:
            continue
        found = homes.get(name, ())
        if not found:
            text = f"the state {name} is declared nowhere{nearest(name, homes)}"
            yield _problem(source, line, text, Weight.WARNING)
        elif len(found) > 1 and found[0] != name:
            pages = " and ".join(found)
            yield _problem(source, line, f"the state {name} stands on several pages: {pages}")
    for each in source.page.transitions:
        if each.source not in own and each.source in homes:
            home = homes[each.source][0]
            text = f"the transitions of {each.source} stand on its own page, that of {home}"
            yield _problem(source, source.lines[each.source, each.target], text)


def _named(source: Source) -> Iterator[tuple[str, int]]:
    """Yield each state that a page names elsewhere than in its list, once, with its line."""
    places: dict[str, int] = {}
    for each in source.page.transitions:
        line = source.lines[each.source, each.target]
        places.setdefault(each.source, line)
        places.setdefault(each.target, line)
    for state in source.page.states:
        if state.within is not None:
            places.setdefault(state.within.to, source.lines[state.name, WITHIN])
    for old, new in source.page.upgrades:
        places.setdefault(new, source.lines[old, new, "upgrade"])
    yield from places.items()


def _reach(source: Source, others: set[str]) -> Iterator[Problem]:
    """Yield the states that no move comes to, and those that none leaves.

    `others` are the targets of other pages, which lead here where they are not their own.
    """
    page = source.page
    after = _table([*((each.source, each.target) for each in page.transitions), *_times(page)])
    todo = [page.initial, *others, *(new for _, new in page.upgrades)]
    reached = set(todo)
    while todo:
        new = after.get(todo.pop(), set()) - reached
        reached |= new
        todo += new
    for state in page.states:
        line = source.lines[(state.name,)]
        if state.name not in reached:
            text = f"nothing leads to the state {state.name}"
            yield _problem(source, line, text, Weight.WARNING)
        if not after.get(state.name):
            text = f"the state {state.name} is an end: no transition leaves it"
            yield _problem(source, line, text, Weight.NOTE)


def _problem(source: Source, line: int, text: str, weight: Weight = Weight.ERROR) -> Problem:
    return Problem(file=source.file, line=line, text=text, weight=weight)


def diagram(protocol: Protocol) -> str:
    """Return the states of a protocol's page, and where they lead, as Mermaid draws them."""
    return "\n".join(_lines(protocol.start)) + "\n"


def _lines(page: Compiled) -> Iterator[str]:
    names = {name: f"s{number}" for number, name in enumerate(_states(page))}
    yield "stateDiagram-v2"
    for name, mark in names.items():
        home = page.home(name)
        place = f" (protocol {home})" if home != page.page.name else ""
        yield f'    state "{_text(name + place)}" as {mark}'
    yield f"    [*] --> {names[page.page.initial]}"
    for each in page.page.transitions:
        guard = f"[{each.guard}]" if each.guard is not None else ""
        label = _text(" ".join(filter(None, (each.when, guard))))
        yield f"    {names[each.source]} --> {names[each.target]}{f': {label}' if label else ''}"
    for state in page.page.states:
        if state.within is not None:
            label = f"after {duration(state.within.seconds)}"
            yield f"    {names[state.name]} --> {names[state.within.to]}: {label}"


def _states(page: Compiled) -> list[str]:
    found = dict.fromkeys(state.name for state in page.page.states)
    for each in page.page.transitions:
        found |= dict.fromkeys((each.source, each.target))
    found |= dict.fromkeys(s.within.to for s in page.page.states if s.within is not None)
    return list(found)


def _text(text: str) -> str:
    return _DIAGRAM_MARKS.sub(lambda mark: f"#{ord(mark[0])};", text)
