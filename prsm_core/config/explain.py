"""Says what is wrong with a configuration: a line for each mistake, its place, what is right."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.config.layers import dotted
from prsm_core.config.values import MOST
from prsm_core.domain.structs import EXPECTED
from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prsm_core.config.document import KeyPath
    from prsm_core.domain.structs import Fault

SHOWN = 10  # mistakes told at once
_NEXT = "\n  "

_WANTED = {
    "str": "text; put it in quotes",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}
_BOUND = re.compile(r" (?P<sign>[<>]=?) (?P<bound>\S+)$")
_SIGNS = {
    ">": "greater than",
    ">=": "greater than or equal to",
    "<": "less than",
    "<=": "less than or equal to",
}
_LENGTH = re.compile(r" of length (?P<sign>[<>]=) (?P<bound>\d+)$")


def problems_of(
    faults: Iterable[Fault],
    origin: Callable[[KeyPath], str],
    *,
    above: KeyPath = (),
    plugins: Sequence[str] = (),
) -> list[str]:
    """Return a line for each mistake, by place. Values may be secret: none is shown.

    Args:
        faults: What is wrong with a struct of the configuration.
        origin: Gives the place of a key path.
        above: Where in the configuration the struct stands.
        plugins: Installed plugins, named where a section is unknown.
    """
    problems = []
    for fault in faults:
        path = (*above, *fault.path)
        problems.append((origin(path), _problem(fault, path, plugins)))
    problems.sort(key=lambda problem: _reading_order(problem[0]))
    return [f"{where}: {what}" if where else what for where, what in problems]


def all_wrong(problems: Iterable[str]) -> ConfigError:
    """Return one error for problems, at least one: a line each, at most `SHOWN`."""
    found = list(dict.fromkeys(problems))
    if len(found) == 1:
        return ConfigError(found[0])
    lines = [f"the configuration has {len(found)} mistakes:", *found[:SHOWN]]
    if len(found) > SHOWN:
        lines.append(f"and {len(found) - SHOWN} more")
    return ConfigError(_NEXT.join(lines))


def one_by_one(error: ConfigError) -> Sequence[str]:
    """Return the problems that an error lists."""
    _, *problems = error.message.split(_NEXT)
    return problems or [error.message]


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean x?" for the known name closest to `name`, or ""."""
    from difflib import get_close_matches

    found = get_close_matches(name, list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def _reading_order(origin: str) -> tuple[str, int]:
    file, _, line = origin.rpartition(":")
    return (file, int(line)) if line.isdecimal() else (origin, 0)


def _problem(fault: Fault, path: KeyPath, plugins: Sequence[str]) -> str:
    name, allowed = dotted(path), [str(each) for each in fault.allowed]
    if fault.kind == "missing":
        return f"{name} is missing"
    if fault.kind == "unknown" or (fault.kind == "name" and allowed):
        return _unknown_key(path, allowed, plugins)
    if fault.kind == "rule":
        return f"{name} {fault.text}"
    if allowed:
        hint = nearest(str(fault.value), allowed)
        return f"{name} is none of the allowed values: {', '.join(allowed)}{hint}"
    return f"{name} must be {_wanted(fault.text)}"


def _unknown_key(path: KeyPath, known: Sequence[str], plugins: Sequence[str]) -> str:
    hint = nearest(str(path[-1]), known) or f"; the settings here are {', '.join(known)}"
    if len(path) == 1 and plugins:
        hint += f"; installed plugins, set under providers: {', '.join(sorted(plugins))}"
    return f"{dotted(path)} is not a setting{hint}"


def _wanted(text: str) -> str:
    """Return what msgspec expects, in words; what it quotes of a value is left out."""
    expected = EXPECTED.match(text)
    if expected is None:
        return "a finite number" if text == "Number out of range" else "another value"
    kinds = [kind for kind in expected["kind"].split(" | ") if kind != "null"]
    bound, length = _BOUND.search(expected["rule"]), _LENGTH.search(expected["rule"])
    if length is not None:
        unit = "character" if kinds == ["str"] else "item"
        most = "least" if length["sign"] == ">=" else "most"
        plural = "" if length["bound"] == "1" else "s"
        return f"at {most} {length['bound']} {unit}{plural} long"
    if bound is not None:
        if float(bound["bound"]) == MOST:
            return "a finite number"
        return f"{_SIGNS[bound['sign']]} {bound['bound'].removesuffix('.0')}"
    if len(kinds) == 1:
        return _WANTED.get(kinds[0], f"{kinds[0]}{expected['rule']}")
    return " or ".join(_WANTED.get(kind, kind).partition(";")[0] for kind in kinds)
