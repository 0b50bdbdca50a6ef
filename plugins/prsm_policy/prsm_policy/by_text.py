"""What the text of a command alone says; the file system is not looked at.

A shell swallows most exit codes: of `pytest | tail` and of `pytest; true` nobody learns how pytest
ended. A command counts as told only where its failure cannot give the text the code 0.
"""

from __future__ import annotations

import re
import shlex
import time
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from prsm_core.policies import CommandPart, word_set
from prsm_policy.classes import is_lookup
from prsm_policy.places import Place
from prsm_policy.safe import every_part, is_safe
from prsm_policy.safe.checks import check_named
from prsm_policy.shell import read_script
from prsm_policy.shell.find_nested import find_nested
from prsm_policy.shell.grammar import MAX_SECONDS, RefusedError, parse
from prsm_policy.shell.lists import LISTS, below, between, pipelines
from prsm_policy.shell.wrappers import PROGRAM_VARIABLES, SHELLS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tree_sitter import Node

    from prsm_policy.shell import Command
    from prsm_policy.shell.lists import Member
    from prsm_policy.shell.words import Word
    from prsm_policy.tree import Reach

# Programs that show how something is, by the words that must follow, beside the services that are
# looked up: what is shown matters here to nobody, so that logs are among them.
_LOOKS = {
    "aws": r"\S+ (?:describe|list|get|wait)\b.*",
    "az": r"(?:\S+ )+(?:list|show)\b.*",
    "docker": r"(?:compose |container )?(?:logs|inspect|stats)\b.*",
    "gcloud": r"(?:\S+ )+(?:list|describe)\b.*",
    "gh": r"run watch\b.*",
    "git": r"ls-remote\b.*",
    "kubectl": r"(?:get|describe|logs|wait|rollout status)\b.*",
    "systemctl": r"(?:show|list-\w+)\b.*",
    "wget": r"(?:-q )?(?:--spider|-q?O ?-)(?!\S).*",
} | dict.fromkeys(
    word_set(
        "dig free host journalctl jobs lsof nc netstat nproc nslookup pg_isready pgrep pidof ping"
        " ps pstree sleep ss uptime vmstat w who"
    ),
    r".*",
)
# Options by which curl sends something, or keeps it in a file.
_CURL_SENDS = re.compile(
    r"-\w*[dFTKoOJ].*|-X(?!GET|HEAD).*|--(?:data|form|json|upload|config|output|remote|request"
    r"|cookie-jar|dump|quote|url-query).*"
)
_NOWHERE = re.compile(r"(?:-o|--output)[ =]?/dev/null\b")

_MISLEADING = PROGRAM_VARIABLES | word_set(
    "PATH LD_PRELOAD LD_LIBRARY_PATH PYTEST_ADDOPTS PYTHONHOME NODE_OPTIONS"
)
# What bash itself runs.
BUILTINS = word_set(
    ". : [ alias bg break builtin cd command continue declare dirs echo enable eval exec exit"
    " export false fg getopts hash help history jobs kill let local logout mapfile popd printf"
    " pushd pwd read readarray readonly return set shift shopt source suspend test times trap"
    " true type typeset ulimit umask unalias unset wait"
)

_MOST_NESTED = 8  # shells in shells
# These hand on the exit code of what they run.
_TRANSPARENT = word_set("timeout time nice command env nohup stdbuf ionice chrt taskset sudo doas")
# Behind one of these nothing is told: it ends the text, changes what its end means, or what is run.
_UNTOLD = word_set(
    "eval exec trap alias unalias enable shopt exit return break continue logout suspend kill"
    " builtin hash"
)
_SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})
_SEPARATORS = frozenset({";", "\n", "comment"})
_ACTIVATES = ("/bin/activate", "/Scripts/activate")
_SETS = {"e": "stops", "errexit": "stops", "pipefail": "pipes"}
_NEVER = word_set("exit return false")


@dataclass(frozen=True, slots=True)
class _Anywhere(Place):
    """A place of which nothing is known: each path is what it looks like."""

    @property
    def is_seen(self) -> bool:
        return False

    def filled(self, words: Sequence[Word]) -> list[tuple[tuple[Word, ...], Place]]:
        # More than two names for a pattern matter no more than two.
        twice = [(word, word) if word.glob else (word,) for word in words]
        return [(tuple(chain.from_iterable(twice)), self)]

    def is_tree_ordinary(self, paths: Sequence[Word], reach: Reach) -> bool:
        return True

    def is_ordinary(self, word: Word, *, is_read: bool = True) -> bool:
        return True

    def is_writable(self, word: Word) -> bool:
        return False

    def entered(self, word: Word) -> Place:
        return self

    def is_outside(self, word: Word) -> bool:
        return False


@lru_cache(maxsize=512)
def only_reads(command: str) -> bool:
    """Return whether a command is known to change nothing."""
    return every_part(read_script(command), _anywhere(), _reads)


@lru_cache(maxsize=512)
def looks_up(command: str) -> bool:
    """Return whether a command does no more than look how something is, here or elsewhere."""
    return every_part(
        read_script(command),
        _anywhere(),
        lambda part, where: _reads(part, where) or is_lookup(part, where) or _looks(part),
    )


def _anywhere() -> Place:
    place = _Anywhere.of("/", "/")
    if place is None:
        raise AssertionError("a folder is in itself")
    return place


def _reads(part: Command, where: Place) -> bool:
    return is_safe(part, where, trusted=False)


def _looks(part: Command) -> bool:
    if part.writes or not all(word.exact for word in part.words):
        return False
    if part.name == "curl":
        options = _NOWHERE.sub("", " ".join(part.texts[1:])).split()
        return not any(map(_CURL_SENDS.fullmatch, options))
    shape = _LOOKS.get(part.name)
    return shape is not None and re.fullmatch(shape, " ".join(part.texts[1:])) is not None


def exact(command: str) -> str:
    """Return a plain single command with its words quoted in one way, any other text as it is."""
    script = read_script(command)
    if not script.plain or script.own != 1:
        return command.strip()
    only = script.commands[0]
    # What a comment or a redirection to nowhere adds is not told by the words.
    adds = only.assigned or only.reads or {"#", ">", "<"} & set(command)
    is_bare = not adds and all(word.known for word in only.words)
    return shlex.join(only.texts) if is_bare else command.strip()


@lru_cache(maxsize=512)
def exit_parts(command: str) -> tuple[CommandPart, ...] | None:
    """Return the simple commands of a text; None for one that cannot be read."""
    parts = read_exit(command)
    if parts is None:
        return None
    return tuple(
        CommandPart(
            text=part.text,
            program=part.command.name,
            check=_check(part.command),
            folders=part.folders,
            is_told=part.is_told,
        )
        for part in parts
    )


def programs_of(command: str) -> tuple[str, ...]:
    """Return the programs that a text looks for on the PATH: not bash's, and none of its own."""
    script = read_script(command)
    programs = dict.fromkeys(each.texts[0] for each in script.commands if each.name)
    return tuple(
        program
        for program in programs
        if program not in BUILTINS and program not in script.functions and "/" not in program
    )


def _check(command: Command) -> tuple[str, tuple[str, ...]] | None:
    if any(each.name in _MISLEADING for each in command.assigned):
        return None
    named = check_named([word.text for word in command.words if word.exact])
    return None if named is None else (named[0], tuple(named[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A simple command as it is written in a text, with the folders that were entered before."""

    text: str
    command: Command
    folders: tuple[str, ...] = ()
    is_told: bool = False


@dataclass(frozen=True, slots=True)
class _Modes:
    """What the shell was set to: to stop where a command fails, to fail where a pipe does."""

    stops: bool = False
    pipes: bool = False


class _UntoldError(Exception):
    """The exit code says nothing about any command."""


@lru_cache(maxsize=512)
def read_exit(text: str) -> tuple[Part, ...] | None:
    """Return the commands of a text in its order; None for one that cannot be read."""
    reader, told = _Reader(), frozenset[int]()
    try:
        try:
            told = reader.text(text, _Modes(), 0)
        except _UntoldError:
            reader = _Reader()
            reader.untold(text)
    except RefusedError:
        return None
    return tuple(replace(part, is_told=at in told) for at, part in enumerate(reader.parts))


@dataclass(slots=True)
class _Reader:
    """Walks through a text. Each method returns the parts whose success its success tells."""

    parts: list[Part] = field(default_factory=list)
    _folders: tuple[str, ...] = ()
    _data: bytes = b""

    def text(self, text: str, modes: _Modes, depth: int) -> frozenset[int]:
        if depth > _MOST_NESTED:
            raise RefusedError("too much is nested in it")
        outer, self._data = self._data, text.encode("utf-8", "surrogatepass")
        root = parse(text, time.thread_time() + MAX_SECONDS)
        if any(node.type == "function_definition" for node in below(root)):
            raise _UntoldError  # any name may be one of these
        told = self._sequence(root.children, modes, depth)
        self._data = outer
        return told

    def untold(self, text: str) -> None:
        """Take the commands of a text that tells nothing of any."""
        self._data = text.encode("utf-8", "surrogatepass")
        for command, part in self._commands(parse(text, time.thread_time() + MAX_SECONDS)):
            self._add(command, part)

    def _commands(self, root: Node) -> Iterator[tuple[Command, str]]:
        """Yield the commands in a node as they are written, with their texts."""
        nodes = [node for node in below(root) if node.type == "command"]
        for node in sorted(nodes, key=lambda node: node.start_byte):
            text = self._slice(node)
            yield from ((command, text) for command in read_script(text).commands[:1])

    def _sequence(self, nodes: Iterable[Node], modes: _Modes, depth: int) -> frozenset[int]:
        steps: list[tuple[Node, bool]] = []
        for node in nodes:
            if node.type == "&" and steps:
                steps[-1] = steps[-1][0], True
            elif node.type not in _SEPARATORS:
                steps.append((node, False))
        told: frozenset[int] = frozenset()
        for number, (node, is_behind) in enumerate(steps, 1):
            changed = self._set(node, modes)
            if changed is not None:
                modes = changed
                continue
            successes = self._statement(node, modes, depth)
            if not is_behind and (number == len(steps) or self._stops(node, modes)):
                told |= successes
        return told

    def _set(self, node: Node, modes: _Modes) -> _Modes | None:
        """Return the modes behind a `set`, None for any other statement."""
        words = self._slice(node).split() if node.type == "command" else []
        if words[:1] != ["set"]:
            return None
        is_named = is_off = False
        for word in words[1:]:
            if is_named:
                names, is_on = [word], not is_off
            elif word[:1] in {"-", "+"}:
                names, is_on = list(word[1:].replace("o", "")), word[0] == "-"
            else:
                break
            is_off = not is_on
            is_named = not is_named and "o" in word[1:]
            changes = {_SETS[name]: is_on for name in names if name in _SETS}
            modes = replace(modes, **changes)
        return modes

    def _stops(self, node: Node, modes: _Modes) -> bool:
        """Return whether the text ends with a failure where a statement in its midst fails."""
        if node.type not in LISTS:
            return modes.stops
        lines = [] if _is_negated(node) else pipelines(node)
        if len(lines) > 1:
            last = lines[-1]
            return last[0].operator == "||" and self._never_succeeds(last, {"exit"})
        return modes.stops and bool(lines)

    def _statement(self, node: Node, modes: _Modes, depth: int) -> frozenset[int]:
        kind = node.type
        if kind in LISTS:
            if _is_negated(node):
                return self._note_all(node)
            return self._list(pipelines(node), modes, depth)
        if kind == "command":
            return self._simple(node, modes, depth)
        if kind == "subshell":
            folders = self._folders
            told = self._sequence(between(node, "(", ")"), modes, depth)
            self._folders = folders
            return told
        if kind == "compound_statement":
            return self._sequence(between(node, "{", "}"), modes, depth)
        return self._note_all(node)

    def _list(self, lines: Sequence[Sequence[Member]], modes: _Modes, depth: int) -> frozenset[int]:
        changed = self._set(lines[0][0].node, modes) if len(lines[0]) == 1 else None
        modes = modes if changed is None else changed
        told = self._pipeline(lines[0], modes, depth)
        for line in lines[1:]:
            if line[0].operator == "||" and self._never_succeeds(line, _NEVER):
                continue  # where that runs, the list has failed
            found = self._pipeline(line, modes, depth)
            told = told | found if line[0].operator == "&&" else told & found
        return told

    def _pipeline(self, members: Sequence[Member], modes: _Modes, depth: int) -> frozenset[int]:
        found = [
            frozenset[int]() if one.is_bare else self._statement(one.node, modes, depth)
            for one in members
        ]
        return frozenset[int]().union(*found) if modes.pipes else found[-1]

    def _never_succeeds(self, line: Sequence[Member], names: Iterable[str]) -> bool:
        """Return whether a pipeline is an end with a failure, maybe behind words that are said."""
        if len(line) != 1:
            return False
        node = line[0].node
        nodes = [node]
        if node.type == "compound_statement":
            nodes = [one for one in between(node, "{", "}") if one.type not in _SEPARATORS]
        if not nodes or any(one.type not in {"command", "redirected_statement"} for one in nodes):
            return False
        *said, last = [self._slice(one).split() for one in nodes]
        is_said = all(words[0] in {"echo", "printf"} for words in said)
        code = last[1] if len(last) == 2 else "1" if last[0] == "false" else ""
        return is_said and last[0] in names and code.isdigit() and int(code) % 256 > 0

    def _simple(self, node: Node, modes: _Modes, depth: int) -> frozenset[int]:
        text = self._slice(node)
        commands = read_script(text).commands
        if not commands:
            return frozenset()
        told = self._resolved(commands[0], text, modes, depth)
        for child in below(node):
            if child.type in _SUBSTITUTIONS:
                self._note_all(child)
        return told

    def _resolved(self, command: Command, text: str, modes: _Modes, depth: int) -> frozenset[int]:
        """Look into shells and wrappers."""
        name = command.name
        if not command.words:
            return frozenset()
        if name in _UNTOLD or not name or _sources(command) or "!" in command.texts[:2]:
            raise _UntoldError
        if name in SHELLS and (code := _code(command)) is not None:
            inner, of = code
            return self.text(inner, of, depth + 1)
        if name in _TRANSPARENT:
            nested = find_nested(command)
            if nested.certain and len(nested.commands) == 1 and not nested.codes:
                inner_text = " ".join(nested.commands[0].texts)
                return self._resolved(nested.commands[0], inner_text, modes, depth + 1)
        if name == "cd" and len(command.words) == 2:
            self._folders = (*self._folders, command.texts[1])
        return frozenset({self._add(command, text)})

    def _add(self, command: Command, text: str) -> int:
        self.parts.append(Part(text=text, command=command, folders=self._folders))
        return len(self.parts) - 1

    def _note_all(self, node: Node) -> frozenset[int]:
        """Take the commands of what tells nothing of them."""
        for command, text in self._commands(node):
            if command.name in _UNTOLD:
                raise _UntoldError
            self._add(command, text)
        return frozenset()

    def _slice(self, node: Node) -> str:
        return self._data[node.start_byte : node.end_byte].decode("utf-8", "surrogatepass")


def _is_negated(node: Node) -> bool:
    """Return whether a list negates some status of its own."""
    stack = [node]
    while stack:
        each = stack.pop()
        if each.type in {"negated_command", "!"}:
            return True
        stack += [child for child in each.children if child.type in LISTS or child.type == "!"]
    return False


def _sources(command: Command) -> bool:
    """Return whether a command runs a file in this shell that may do anything to it."""
    if command.name not in {"source", "."}:
        return False
    return len(command.words) != 2 or not f"/{command.texts[1]}".endswith(_ACTIVATES)


def _code(command: Command) -> tuple[str, _Modes] | None:
    """Return the text that a shell is given, and how it is set; None where that is not sure."""
    takes_code = stops = pipes = False
    words = list(command.words[1:])
    while words and words[0].text[:1] == "-" and words[0].known:
        letters = words.pop(0).text[1:]
        if not set(letters) <= set("lceiuxo"):
            return None
        takes_code = takes_code or "c" in letters
        option = words.pop(0).text if "o" in letters and words else ""
        stops = stops or "e" in letters or option == "errexit"
        pipes = pipes or option == "pipefail"
    is_sure = takes_code and words and words[0].exact
    return (words[0].text, _Modes(stops, pipes)) if is_sure else None
