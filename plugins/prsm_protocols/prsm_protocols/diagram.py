"""Draws a protocol as a state diagram of Mermaid."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_protocols.page import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prsm_protocols.compiled import Compiled, Protocol

# What Mermaid would take for a mark of its own, within the text of a label.
_MARKS = re.compile(r"[\"#;:<>{}\[\]`\\]")


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
    return _MARKS.sub(lambda mark: f"#{ord(mark[0])};", text)
