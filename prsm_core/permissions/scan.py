"""Finds commands anywhere in shell text, also where it is not plain, to match rules against.

For a deny rule it is enough that a command could run. So the text is not parsed but taken apart
at everything that can begin a command, and what is quoted is taken apart again. It may find too
much; what it cannot resolve is asked about by the policy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prsm_core.permissions.plain import word_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prsm_core.permissions.plain import SimpleCommand

    Words = tuple[str, ...]

MAX_DEPTH = 8  # quotes within quotes; each level doubles the backslashes

_TOKEN = re.compile(
    r"(?P<space>[ \t\r\v\f]+|\\\r?\n)"
    r"|(?P<single>'[^']*')"
    r'|(?P<double>"(?:[^"\\]|\\.)*")'
    r"|(?P<escaped>\\.)"
    r"|(?P<redirect>[0-9]*(?:&>>?|>>|>\||>&|<<<|<<-?|<>|<&|>(?!\()|<(?!\())[ \t]*)"
    r"|(?P<boundary>[;&|(){}`\n])"
    r"|(?P<literal>[^\s'\"\\<>;&|(){}`]+|.)",
    re.DOTALL,
)
_KEYWORDS = word_set("do then else elif if while until ! time coproc case for select in")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")

# They run what stands behind them, as words or as text.
_RUNNERS = word_set(
    "timeout time nice command builtin env nohup xargs sudo doas su stdbuf setsid eval exec ionice"
    " chrt taskset watch strace ltrace script unbuffer expect parallel find fd busybox chroot"
    " unshare nsenter flock ssh ssh-agent dbus-run-session proxychains catchsegv"
    " sh bash dash zsh ksh fish trap coproc then do else"
)
_SHELLS = word_set("sh bash dash zsh ksh fish eval source .")
# Global options of git that take the next word.
_GIT_VALUED = word_set("-c -C --git-dir --work-tree --namespace --config-env --attr-source")


def commands_in(text: str, depth: int = 0) -> Iterator[Words]:
    """Yield the words of everything in a text that may run as a command."""
    for words, quoted in _pieces(text):
        yield from _readings(words)
        if depth < MAX_DEPTH:
            for inner in quoted:
                yield from commands_in(inner, depth + 1)


def commands_of(commands: Sequence[SimpleCommand]) -> Iterator[Words]:
    """Yield the words of everything that plain commands may run.

    The arguments of a program that runs no others are data, unless a shell reads them by a pipe.
    """
    programs = [_basename(command.texts[0]) for command in commands]
    feeds_shell = any(program in _SHELLS for program in programs)
    for command, program in zip(commands, programs, strict=True):
        yield from _readings(command.texts)
        if feeds_shell or program in _RUNNERS:
            for text in command.texts[1:]:
                yield from commands_in(text)


def matches(rule: Words, words: Words) -> bool:
    """Return whether a command begins with a rule's words.

    The program counts under any path, and options between it and its subcommand do not.
    """
    if not words or _basename(words[0]) != rule[0]:
        return False
    size = len(rule) - 1
    return words[1 : size + 1] == rule[1:] or _after_options(words)[:size] == rule[1:]


def _after_options(words: Words) -> Words:
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        taken = 2 if words[0].endswith("git") and rest[0] in _GIT_VALUED else 1
        del rest[:taken]
    return tuple(rest)


def _readings(words: Iterable[str]) -> Iterator[Words]:
    """Yield a command's words, and for a program that runs others what it may run."""
    rest = tuple(words)
    while rest and (rest[0] in _KEYWORDS or _ASSIGNMENT.match(rest[0])):
        rest = rest[1:]
    if not rest:
        return
    yield rest
    if _basename(rest[0]) in _RUNNERS:
        for start in range(1, len(rest)):
            yield rest[start:]


def _pieces(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the words between two boundaries, quotes removed, and the quoted texts in them."""
    words: list[str] = []
    quoted: list[str] = []
    current: list[str] | None = None
    skip = False  # the next word is the file of a redirection
    for match in _TOKEN.finditer(text + "\n"):
        kind, value = match.lastgroup, match.group()
        if kind in {"space", "redirect", "boundary"}:
            if current is not None and not skip:
                words.append("".join(current))
            skip = kind == "redirect" or (skip and current is None and kind == "space")
            current = None
            if kind == "boundary":
                yield words, quoted
                words, quoted, skip = [], [], False
            continue
        current = [] if current is None else current
        if kind in {"single", "double"}:
            value = _unquoted(value)
            quoted.append(value)
        elif kind == "escaped":
            value = value[1:]
        current.append(value)


def _unquoted(value: str) -> str:
    if value[0] == "'":
        return value[1:-1]
    return re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL)


def _basename(program: str) -> str:
    return program.rpartition("/")[2]
