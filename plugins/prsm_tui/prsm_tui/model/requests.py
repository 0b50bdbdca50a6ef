"""What waits for a person, and what an answer that was typed means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prsm_core import Answer
from prsm_core.kit import command_lines, escape_command, escape_exact
from prsm_tui.model.spoken import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PERMISSION, QUESTION = "permission", "question"
LETTERS: Mapping[str, tuple[str, str]] = {
    "once": ("o", "[o]nce"),
    "always": ("a", "[a]lways in this run"),
    "allow_project": ("p", "[p] always in this project"),
    "allow_global": ("g", "[g] always in all projects"),
    "deny_project": ("dp", "[dp] never in this project"),
    "deny_global": ("dg", "[dg] never in all projects"),
    "deny": ("d", "[d]eny"),
}
_WORDS = {"y": "once", "yes": "once", "allow": "once", "n": "deny", "no": "deny"}
_FOR_ALL = {"oo": "once", "allow all": "once", "dd": "deny", "deny all": "deny"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A permission or a question that is open; `lines` are all of what it is about."""

    id: str
    kind: str
    agent: str
    call: str | None
    head: str
    lines: Sequence[str]
    options: Sequence[str]
    takes_several: bool
    opened_at: float
    expires_at: float | None


def request_of(kind: str, agent: str | None, opened_at: float, told: Mapping[str, Any]) -> Request:
    """Return a request, by its event or by an entry of a view."""
    is_permission = kind == PERMISSION
    return Request(
        id=str(told["request"]),
        kind=kind,
        agent=agent or "",
        call=told.get("call"),
        head=_head(told) if is_permission else shown(told.get("question")).split("\n", 1)[0],
        lines=tuple(_permission(told) if is_permission else _question(told)),
        options=tuple(str(option) for option in told.get("options") or ()),
        takes_several=bool(told.get("multiple")),
        opened_at=opened_at,
        expires_at=told.get("expires_at"),
    )


def parse_verdict(typed: str, options: Sequence[str]) -> str | None:
    """Return the option that was typed by letter, by name, or as yes or no; None if unclear."""
    word = " ".join(typed.lower().split())
    letters = {letter: option for option, (letter, _) in LETTERS.items()}
    verdict = letters.get(word) or _WORDS.get(word, word)
    return verdict if verdict in options else None


def parse_for_all(typed: str) -> str | None:
    """Return the verdict that was typed for all permissions at once, None if it is for one."""
    return _FOR_ALL.get(" ".join(typed.lower().split()))


def parse_answer(typed: str, request: Request) -> Answer | None:
    """Return the choices that were typed by number or in full, else free text; None if unclear.

    A number that is not on the list is unclear, as are several where one is asked for.
    """
    text, options = typed.strip(), request.options
    if not text:
        return None
    if text in options:
        return Answer(choices=(text,))
    if not options or not re.fullmatch(r"[0-9]+(?:[\s,]+[0-9]+)*", text):
        return Answer(text=text)
    numbers = list(dict.fromkeys(int(number) for number in re.split(r"[\s,]+", text)))
    if not all(1 <= number <= len(options) for number in numbers):
        return None
    if len(numbers) > 1 and not request.takes_several:
        return None
    return Answer(choices=tuple(options[number - 1] for number in numbers))


def offers(request: Request, count: int) -> str:
    """Return which answers a request takes, of `count` permissions that wait."""
    if request.kind == QUESTION:
        many = "numbers or a text" if request.takes_several else "a number or a text"
        return f"{many if request.options else 'a text'}, then Enter"
    labels = [label for option, (_, label) in LETTERS.items() if option in request.options]
    if count > 1:
        labels.append(f"all {count}: [oo] once [dd] deny")
    return "  ".join([*labels, "then Enter"])


def _head(told: Mapping[str, Any]) -> str:
    about = told.get("command") or ", ".join(map(str, told.get("paths") or ()))
    what = escape_command(str(about or told.get("reason") or ""))
    return f"{escape_exact(str(told.get('tool')))}: {what}"


def _permission(told: Mapping[str, Any]) -> Sequence[str]:
    command, reason = str(told.get("command") or ""), str(told.get("reason") or "")
    parts = [str(part) for part in told.get("parts") or ()]
    unnamed = [part for part in parts if part not in reason and part != command.strip()]
    return [
        f"tool: {escape_exact(str(told.get('tool')))}",
        *(["command:", *(f"  {line}" for line in command_lines(command))] if command else ()),
        *(f"path: {escape_command(str(path))}" for path in told.get("paths") or ()),
        *_change(told.get("change")),
        *([f"folder: {escape_command(str(told['cwd']))}"] if told.get("cwd") else ()),
        *([f"asked by the check {escape_exact(str(told['check']))}"] if told.get("check") else ()),
        *(f"part: {escape_command(part)}" for part in unnamed),
        *([f"reason: {escape_command(reason)}"] if reason else ()),
        *_rules(told.get("rules")),
    ]


def _question(told: Mapping[str, Any]) -> Sequence[str]:
    options = told.get("options") or ()
    return [
        *shown(told.get("question")).split("\n"),
        *(f"  {n}. {escape_exact(str(option))}" for n, option in enumerate(options, start=1)),
    ]


def _change(told: object) -> Sequence[str]:
    if not isinstance(told, dict):
        return ()
    removed = told.get("removed")
    size = f"+{told.get('added')}" + (", the whole file" if removed is None else f" -{removed}")
    left = told.get("more")
    return [
        f"change: {size}",
        *(f"  {escape_command(str(line))}" for line in told.get("lines") or ()),
        *([f"  … {left} more lines"] if left else ()),
    ]


def _rules(told: object) -> Sequence[str]:
    if not isinstance(told, dict):
        return ()
    return [
        f"the rule that an answer for more than once makes, to {escape_exact(str(verdict))}: "
        + escape_command(str(rule))
        for verdict, rules in sorted(told.items())
        for rule in rules or ()
    ]
