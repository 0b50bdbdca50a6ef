"""Finds commands anywhere in shell text, also where it is not plain, to match rules against.

For a deny rule it is enough that a command could run. So the text is not parsed but taken apart
at everything that can begin a command; quoted text is taken apart again where a shell may read
it. It may find too much. What it cannot resolve, the policy asks about.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from prsm_core.permissions.plain import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prsm_core.permissions.plain import SimpleCommand

Words = tuple[str, ...]

MAX_DEPTH = 8  # quotes within quotes
MAX_RULE = 16  # words of a command that are compared with a rule

_TOKEN = re.compile(
    r"(?P<space>[ \t\r\v\f]+)"
    r"|(?P<nothing>\\\n|\$(?=['\"]))"
    r"|(?P<single>'[^']*')"
    r'|(?P<double>"(?:[^"\\]|\\.)*")'
    r"|(?P<escaped>\\.)"
    r"|(?P<redirect>[0-9]*(?:&>>?|>>|>\||>&|<<<|<<-?|<>|<&|>(?!\()|<(?!\())[ \t]*)"
    r"|(?P<boundary>[;&|(){}`\n])"
    r"|(?P<literal>[^\s'\"\\<>;&|(){}`$]+|.)",
    re.DOTALL,
)
_SUBSTITUTION = re.compile(r"[$<>]\(|`")
_KEYWORDS = word_set("do then else elif if while until ! time coproc")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")

_SHELLS = word_set("sh bash dash zsh ksh fish eval source .")
# They run what stands behind them, as words or as text.
_RUNNERS = _SHELLS | word_set(
    "timeout time nice command builtin env nohup xargs sudo doas su stdbuf setsid exec ionice chrt"
    " taskset watch strace ltrace script unbuffer expect parallel busybox chroot unshare nsenter"
    " flock ssh ssh-agent dbus-run-session trap"
)
# They run what stands behind one of these options.
_RUNNING_OPTIONS = word_set("-exec -execdir -ok -okdir -x -X --exec --exec-batch")
_FINDERS = word_set("find fd fdfind")
# Global options of git that take the next word.
_GIT_VALUED = word_set("-c -C --git-dir --work-tree --namespace --config-env --attr-source")


class _Piece(NamedTuple):
    """What stands between two boundaries: its words, quotes removed, and its quoted texts."""

    words: Words
    quoted: tuple[str, ...]


def commands_in(text: str, depth: int = 0) -> Iterator[Words]:
    """Yield the first words of everything in a text that may run as a command."""
    pieces = list(_pieces(text))
    feeds_shell = any(_program(piece.words) in _SHELLS for piece in pieces)
    for piece in pieces:
        yield from _readings(piece.words)
        if depth == MAX_DEPTH:
            continue
        is_code = feeds_shell or _runs_others(piece.words)
        for inner in piece.quoted:
            for code in [inner] if is_code else _SUBSTITUTION.split(inner)[1:]:
                yield from commands_in(code, depth + 1)


def commands_of(commands: Sequence[SimpleCommand]) -> Iterator[Words]:
    """Yield the first words of everything that plain commands may run.

    The arguments of a program that runs no others are data, unless a shell may read them.
    """
    feeds_shell = any(_program(command.texts) in _SHELLS for command in commands)
    for command in commands:
        yield from _readings(command.texts)
        if feeds_shell or _runs_others(command.texts):
            for text in command.texts[1:]:
                yield from commands_in(text, 1)


def matches(rule: Words, words: Words) -> bool:
    """Return whether a command begins with a rule's words.

    The program counts under any path, and options between it and its subcommand do not.
    """
    if not words or _basename(words[0]) != rule[0]:
        return False
    size = len(rule) - 1
    return words[1 : size + 1] == rule[1:] or _after_options(words)[:size] == rule[1:]


def _after_options(words: Words) -> Words:
    position = 1
    is_git = _basename(words[0]) == "git"
    while position < len(words) and words[position].startswith("-"):
        position += 2 if is_git and words[position] in _GIT_VALUED else 1
    return words[position:]


def _bare(words: Words) -> Words:
    """Return the words from the program on, without keywords and assignments."""
    for position, word in enumerate(words):
        if word not in _KEYWORDS and not _ASSIGNMENT.match(word):
            return words[position:]
    return ()


def _program(words: Words) -> str:
    bare = _bare(words)
    return _basename(bare[0]) if bare else ""


def _runs_others(words: Words) -> bool:
    bare = _bare(words)
    if not bare or bare[:2] in {("command", "-v"), ("command", "-V")}:
        return False
    program = _basename(bare[0])
    return program in _RUNNERS or (program in _FINDERS and not _RUNNING_OPTIONS.isdisjoint(bare))


def _readings(words: Words) -> Iterator[Words]:
    """Yield a command's words, and for a program that runs others what it may run."""
    bare = _bare(words)
    if bare:
        yield bare[:MAX_RULE]
    if _runs_others(words):
        for start in range(1, len(bare)):
            yield bare[start : start + MAX_RULE]


def _pieces(text: str) -> Iterator[_Piece]:
    words: list[str] = []
    quoted: list[str] = []
    current: list[str] | None = None
    skip = False  # the word that is read is the file of a redirection
    for match in _TOKEN.finditer(text + "\n"):
        kind, value = match.lastgroup, match.group()
        if kind in {"space", "redirect", "boundary"}:
            if current is not None and not skip:
                words.append("".join(current))
            current, skip = None, kind == "redirect"
            if kind == "boundary":
                yield _Piece(tuple(words), tuple(quoted))
                words, quoted = [], []
            continue
        current = current or []
        if kind in {"single", "double"}:
            value = _unquoted(value)
            quoted.append(value)
        elif kind == "escaped":
            value = value[1:]
        if kind != "nothing":
            current.append(value)


def _unquoted(value: str) -> str:
    if value[0] == "'":
        return value[1:-1]
    return re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL)


def _basename(program: str) -> str:
    return program.rpartition("/")[2]
