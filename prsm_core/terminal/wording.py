"""Requests in full and in one line, problems, and what a person types as an answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from prsm_core.domain.permissions import Answer
from prsm_core.kit.text import command_lines, escape_command, escape_exact, escape_prose, first_line
from prsm_core.policies.rule_classes import RULE_CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_core.domain.account import Problem

_LONG = 300  # characters of a problem
_HEADS = {
    "gate": "red gate",
    "advice": "red gate, which is advice only",
    "unmerged": "not merged",
    "failed": "failed",
    "unconfirmed": "not confirmed",
    "refused": "refused, for nobody was there",
    "unanswered": "unanswered, for nobody was there",
}

VERDICT_LABELS = {
    "once": ("o", "[o]nce"),
    "always": ("a", "[a]lways"),
    "allow_project": ("p", "[p]roject"),
    "allow_global": ("g", "[g]lobal"),
    "deny_project": ("dp", "[dp] deny project"),
    "deny_global": ("dg", "[dg] deny global"),
    "deny": ("d", "[d]eny"),
}
"""What is typed for each verdict, and how a prompt offers it."""
_WORDS = {"y": "once", "yes": "once", "allow": "once", "n": "deny", "no": "deny"}


def problem_lines(problems: Iterable[Problem], names: Mapping[str, str]) -> Sequence[str]:
    """Return what speaks against a run's result; `names` has agents by id, escaped."""
    return [
        f"{_HEADS[one.kind]}: {_whose(one, names)}{escape_command(first_line(one.text, _LONG))}"
        for one in problems
    ]


def _whose(problem: Problem, names: Mapping[str, str]) -> str:
    agent = problem.agent
    return "" if agent is None else f"{names.get(agent) or escape_exact(agent[:8])}: "


def request_lines(kind: str, who: str, asked: Mapping[str, Any]) -> Sequence[str]:
    """Return all that a person is asked; `asked` has the fields of the event of that kind."""
    if kind == "question_asked":
        options = map(escape_exact, map(str, asked.get("options") or ()))
        return (
            *hanging(f"{who} asks you: ", escape_prose(str(asked.get("question") or ""))),
            *(f"  {number}. {option}" for number, option in enumerate(options, start=1)),
        )
    paths = [f"  path: {escape_exact(str(path))}" for path in asked.get("paths") or ()]
    command = asked.get("command")
    return (
        f"{who} asks permission for {escape_exact(str(asked.get('tool') or ''))}",
        *(_command(str(command)) if command else paths),
        *_edit(asked.get("change")),
        *_why(asked),
        *_rules(asked.get("rules")),
    )


def hanging(head: str, text: str, *, bar: str = "  | ") -> Sequence[str]:
    """Return a text behind its head, further lines with a bar, so that none looks like ours."""
    first, *rest = text.split("\n")
    return (f"{head}{first}", *(f"{bar}{line}" for line in rest))


def _command(command: str) -> Sequence[str]:
    """Return all of a command; of several lines each has a bar, so that none looks like ours."""
    first, *rest = command_lines(command)
    if not rest:
        return (f"  command: {first}",)
    return ("  command:", f"  | {first}", *(f"  | {line}" for line in rest))


def _edit(change: object) -> Sequence[str]:
    if not isinstance(change, dict):
        return ()
    from prsm_core.permissions.changes import Change

    edit = Change.from_dict(change)
    more = [f"  … {edit.more} more lines"] if edit.more else []
    lines = (f"  | {escape_command(line)}" for line in edit.lines)
    return (f"  change: {edit.counts}", *lines, *more)


def _why(asked: Mapping[str, Any]) -> Sequence[str]:
    reason, command = str(asked.get("reason") or ""), asked.get("command") or ""
    parts = [str(part) for part in asked.get("parts") or ()]
    unnamed = [part for part in parts if part not in reason and part != command.strip()]
    check = asked.get("check")
    return (
        *([f"  asked by the check {escape_exact(str(check))}"] if check else ()),
        *(f"  part: {escape_command(part)}" for part in unnamed),
        *([f"  reason: {escape_command(reason)}"] if reason else ()),
    )


def _rules(rules: object) -> Sequence[str]:
    if not isinstance(rules, dict):
        return ()
    return [
        f"  rule to {verdict}: {escape_command(str(rule))}"
        + (f" ({RULE_CLASSES[rule]})" if isinstance(rule, str) and rule in RULE_CLASSES else "")
        for verdict, made in sorted(rules.items())
        for rule in made or ()
    ]


def subject(asked: Mapping[str, Any]) -> str:
    """Return in one line what a request is about; `asked` has the fields of its event."""
    if asked.get("question"):
        return escape_command(str(asked["question"]).replace("\n", " "))
    what = what_is_asked(asked) or escape_command(str(asked.get("reason") or ""))
    return f"{escape_exact(str(asked.get('tool')))}: {what}"


def what_is_asked(asked: Mapping[str, Any]) -> str:
    """Return the command or the files that a permission is asked for, in one line."""
    return escape_command(str(asked.get("command") or ", ".join(asked.get("paths") or ())))


def parse_verdict(text: str, options: Sequence[str]) -> str | None:
    """Return the option that was typed by letter, by name, or as yes or no; None if unclear."""
    typed = text.strip().lower()
    letters = {letter: option for option, (letter, _) in VERDICT_LABELS.items()}
    verdict = letters.get(typed) or _WORDS.get(typed, typed)
    return verdict if verdict in options else None


def parse_answer(text: str, options: Sequence[str]) -> Answer | None:
    """Return choices typed by number or in full, else the text; None if blank or unclear."""
    typed = text.strip()
    if not typed:
        return None
    if typed in options:
        return Answer(choices=(typed,))
    if not options or not re.fullmatch(r"[0-9]+(?:[\s,]+[0-9]+)*", typed):
        return Answer(text=typed)
    numbers = [int(number) for number in re.split(r"[\s,]+", typed)]
    if not all(1 <= number <= len(options) for number in numbers):
        return None
    return Answer(choices=tuple(options[number - 1] for number in dict.fromkeys(numbers)))
