"""Reads of others' regions: noticed from events, and where it is set denied for an outline.

It saves tokens and keeps no secret: a command whose files are only known when it runs goes
through, and is noticed where its words tell. The labels of an agent say what it owns, and others.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from prsm_core import Deny
from prsm_regions.symbols.listing import repository_of
from prsm_regions.symbols.oracle import is_below
from prsm_regions.symbols.outlines import outline_of_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_core import PermissionContext, PermissionRequest

NAMED = 4000  # characters of a label that names regions

OWN = "regions/region"  # label: the regions of an agent, a line each
OTHERS = "regions/others"  # label: those of others, a line each
READS = "regions/reads"  # label: what an agent may read of them
INTERFACE = "interface"  # … their outlines

_FILE_TOOLS = frozenset({"Glob", "Grep", "Read"})
_SHOWS = frozenset(
    (
        *("cat", "tac", "head", "tail", "less", "more", "bat", "batcat", "view", "nl", "sed"),
        *("awk", "gawk", "mawk", "cut", "sort", "uniq", "diff", "cmp", "xxd", "od", "strings"),
        *("hexdump", "base64", "paste", "grep", "egrep", "fgrep", "rg", "ag", "ack", "jq", "git"),
    )
)
_SEARCHES = frozenset({"rg", "ag", "ack"})  # these go into folders by themselves
_RECURSIVE = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--(?:dereference-)?recursive")
_GIT_SHOWS = frozenset({"show", "diff", "blame", "grep", "cat-file", "log"})
_ENDS = frozenset(";&|()\n")
_GLOB = re.compile(r"[*?\[]")
_MAX_WORDS = 2000
_MAX_NESTED = 3


class Regions(msgspec.Struct, frozen=True):
    """Which regions an agent has, and which others have; relative to the workspace."""

    own: tuple[str, ...]
    others: tuple[str, ...]

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> Regions:
        """Return what the labels of an agent say."""
        return cls(_lines(labels.get(OWN, "")), _lines(labels.get(OTHERS, "")))

    def foreign(self, path: str) -> str | None:
        """Return the region of others that a path is in, None where it is in none."""
        if any(is_below(path, region) for region in self.own):
            return None
        return next((region for region in self.others if is_below(path, region)), None)

    def around(self, folder: str) -> str | None:
        """Return a region of others that is in a folder, or that this is in."""
        if any(is_below(folder, region) for region in self.own):
            return None
        return next(
            (each for each in self.others if is_below(each, folder) or is_below(folder, each)),
            None,
        )


def labels_of(own: str, others: Iterable[str], reads: str) -> dict[str, str]:
    """Return the labels that the check reads; of too many others the first ones are named."""
    named = ""
    for region in others:
        if len(named.encode()) + len(region.encode()) + 1 > NAMED:
            break
        named += f"{region}\n"
    return {OWN: own[:NAMED], OTHERS: named, READS: reads}


class ForeignRead(msgspec.Struct, frozen=True):
    """A read of another's region: by whom, of what, with which tool."""

    agent: str
    tool: str
    path: str
    region: str


async def check(request: PermissionRequest, context: PermissionContext) -> Deny | None:
    """Deny what reads in another's region, where the agent may see interfaces alone."""
    labels = context.labels
    if labels.get(READS) != INTERFACE:
        return None
    return await asyncio.to_thread(_denial, request, context.workspace, Regions.of(labels))


def _denial(request: PermissionRequest, workspace: str, regions: Regions) -> Deny | None:
    told = reads_of(request.tool, request.command, request.paths)
    for path, is_tree in told:
        found = _foreign(path, is_tree, request.cwd, workspace, regions)
        if found is not None:
            return Deny(_reason(*found))
    return None


def _reason(whole: str, path: str, region: str) -> str:
    top, inside = _split(whole)
    text = outline_of_file(top, inside, time.time_ns()) if os.path.isfile(whole) else ""  # noqa: PTH113
    ask = "Ask for what you need by ask_parent, by name; the answer comes at once."
    start = (
        f"{path} is in the region of another agent, {region}: its interface is what you may see."
    )
    return f"{start}\n{text}\n{ask}" if text else f"{start} {ask}"


def foreign_reads(
    agent: str, data: Mapping[str, Any], cwd: str, workspace: str, regions: Regions
) -> list[ForeignRead]:
    """Return what a call read of others' regions; `data` is that of `tool_call_started`.

    It is told after the fact, whatever the call became.
    """
    tool, arguments = str(data.get("tool", "")), data.get("arguments") or {}
    command = arguments.get("command") if isinstance(arguments, dict) else None
    paths = [
        value
        for key, value in (arguments.items() if isinstance(arguments, dict) else ())
        if key in {"file_path", "path", "absolute_path", "notebook_path"} and isinstance(value, str)
    ]
    found = [
        _foreign(path, is_tree, cwd, workspace, regions)
        for path, is_tree in reads_of(tool, command if isinstance(command, str) else None, paths)
    ]
    told = dict.fromkeys((path, region) for _, path, region in filter(None, found))
    return [ForeignRead(agent, tool, path, region) for path, region in told]


def reads_of(tool: str, command: str | None, paths: Iterable[str]) -> list[tuple[str, bool]]:
    """Return the paths that a call reads, each with whether all below it is read."""
    if command is not None:
        return _shell_reads(command)
    return [(path, tool == "Grep") for path in paths] if tool in _FILE_TOOLS else []


def _shell_reads(command: str, depth: int = 0) -> list[tuple[str, bool]]:
    """Return what the words of a command say it reads; what a shell would compute is not known."""
    found: list[tuple[str, bool]] = []
    for words in _simple_commands(command):
        for before, word in zip(("", *words), words, strict=False):
            if before == "<":
                found.append((word, False))
            if any(letter.isspace() for letter in word) and depth < _MAX_NESTED:
                found += _shell_reads(word, depth + 1)
        found += _program_reads(words)
    return found


def _simple_commands(command: str) -> list[list[str]]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    words: list[str] = []
    try:
        words = [word for word, _ in zip(lexer, range(_MAX_WORDS), strict=False)]
    except ValueError:  # a quote that nobody closed
        words = [word.strip("'\"") for word in command.split()[:_MAX_WORDS]]
    commands: list[list[str]] = [[]]
    for word in (part for each in words for part in _lines_apart(each)):
        if word and set(word) <= _ENDS:
            commands.append([])
        else:
            commands[-1].append(word)
    return [each for each in commands if each]


def _lines_apart(word: str) -> list[str]:
    """Return a word that stands at the end of a line as two: the lexer keeps line ends in it."""
    if "\n" not in word or " " in word:
        return [word]
    parts: list[str] = []
    for part in word.split("\n"):
        parts += [part, "\n"] if part else ["\n"]
    return parts[:-1] if not word.endswith("\n") else parts


def _program_reads(words: Sequence[str]) -> list[tuple[str, bool]]:
    program = words[0].rpartition("/")[2]
    if program == "cd" and len(words) > 1:
        return [(words[1], False)]
    if program not in _SHOWS:
        return []
    rest = list(words[1:])
    if program == "git":
        if not rest or rest[0] not in _GIT_SHOWS:
            return []
        is_tree = rest[0] == "grep"
        rest = [word.rpartition(":")[2] for word in rest[1:]]
    else:
        is_tree = program in _SEARCHES or any(_RECURSIVE.fullmatch(word) for word in rest)
        is_tree = is_tree and program in {*_SEARCHES, "grep", "egrep", "fgrep"}
    named = [word.partition("=")[2] if word.startswith("-") else word for word in rest]
    paths = [word for word in named if word]
    places = [word for word in paths if "/" in word or "." in word]
    return [(word, is_tree) for word in (*paths, *(["."] if is_tree and not places else []))]


def _foreign(
    path: str, is_tree: bool, cwd: str, workspace: str, regions: Regions
) -> tuple[str, str, str] | None:
    """Return a path of another's region resolved, relative to the workspace, and the region."""
    start = _GLOB.search(path)
    if start is not None:  # what it stands for is below its fixed folder
        path, is_tree = os.path.dirname(path[: start.start()]) or ".", True  # noqa: PTH120
    try:
        base = os.path.join(workspace, cwd, os.path.expanduser(path))  # noqa: PTH118, PTH111
        whole = os.path.realpath(base)
        inside = _within(whole, os.path.realpath(workspace))
    except (OSError, ValueError):
        return None
    if inside is None:
        return None
    region = regions.around(inside) if is_tree else regions.foreign(inside)
    return (whole, inside, region) if region is not None else None


def _within(path: str, workspace: str) -> str | None:
    """Return a path as one of the workspace, also from another worktree of its repository."""
    if path == workspace:
        return "."
    if path.startswith(f"{workspace}/"):
        return path[len(workspace) + 1 :]
    folder = path if os.path.isdir(path) else os.path.dirname(path)  # noqa: PTH112, PTH120
    top, own = _top(folder), _top(workspace)
    if top is None or own is None or _repository(top) != _repository(own):
        return None
    inside = os.path.relpath(path, top)
    prefix = os.path.relpath(workspace, own)
    if prefix == ".":
        return inside
    return inside[len(prefix) + 1 :] if inside.startswith(f"{prefix}/") else None


@lru_cache(64)
def _repository(top: str) -> str:
    return repository_of(top)


def _top(folder: str) -> str | None:
    while not os.path.lexists(f"{folder}/.git"):
        above = os.path.dirname(folder)  # noqa: PTH120
        if above == folder:
            return None
        folder = above
    return folder


def _split(whole: str) -> tuple[str, str]:
    return os.path.dirname(whole), os.path.basename(whole)  # noqa: PTH119, PTH120


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip().strip("/") for line in text.splitlines() if line.strip())
