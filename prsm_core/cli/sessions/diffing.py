"""Prints what is different between two sessions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from prsm_core.cli.ledger import choose_session, open_ledger
from prsm_core.cli.saying import say
from prsm_core.cli.sessions.comparing import compare
from prsm_core.cli.sessions.listing import name_of
from prsm_core.domain.usage import Spent, total
from prsm_core.kit.text import escape_exact, first_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prsm_core.cli.sessions.comparing import Difference
    from prsm_core.interfaces.store import SessionInfo, Store

_SHOWN = 160  # characters of one side


async def print_diff(workspace: str, one: str, other: str, *, as_json: bool) -> None:
    """Print the differences of two sessions, the first of them first; see `prsm diff`."""
    async with open_ledger(workspace) as store:
        sessions = await store.sessions()
        infos = [choose_session(sessions, prefix) for prefix in (one, other)]
        logs = [[event async for event in store.events(info.session_id)] for info in infos]
        spent = [await _spent(store, info) for info in infos]
    found = compare(*logs)
    told = {
        "a": infos[0].session_id,
        "b": infos[1].session_id,
        "first": _values(found[0]) if found else None,
        "differences": [_values(each) for each in found],
        "spent": {"a": spent[0].to_dict(), "b": spent[1].to_dict()},
    }
    if as_json:
        click.echo(json.dumps(told, indent=2))
    else:
        _print(infos, found, spent)


async def _spent(store: Store, info: SessionInfo) -> Spent:
    return total(row.spent for row in await store.agents(info.session_id))


def _values(found: Difference) -> Mapping[str, Any]:
    return {
        "kind": found.kind,
        "agent": found.agent,
        "what": found.what,
        "a": found.a,
        "b": found.b,
        "seq_a": found.seq_a,
        "seq_b": found.seq_b,
    }


def _print(
    infos: Sequence[SessionInfo], found: Sequence[Difference], spent: Sequence[Spent]
) -> None:
    for side, info in zip("AB", infos, strict=True):
        say(f"{side}: session {info.session_id} {name_of(info.name, info.task)!r}")
    if not found:
        say("the same was done in both")
    for number, each in enumerate(found):
        head = "first difference" if number == 0 else "then"
        say(f"{head}: {escape_exact(each.agent)}, {each.kind}: {first_line(each.what, _SHOWN)}")
        for side, value, seq in (("A", each.a, each.seq_a), ("B", each.b, each.seq_b)):
            say(f"  {side}{_at(seq)}: {_side(value)}")
    for side, used in zip("AB", spent, strict=True):
        say(f"{side} used {used.text}")


def _at(seq: int | None) -> str:
    return "" if seq is None else f" (event {seq})"


def _side(value: Any) -> str:
    """Return one side of a difference in a line."""
    if value is None:
        return "not there"
    if value is True:
        return "there"
    told = ", ".join(f"{name}: {_plain(each)}" for name, each in value.items())
    return first_line(told, _SHOWN)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
