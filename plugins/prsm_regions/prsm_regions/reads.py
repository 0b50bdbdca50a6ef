"""Reads of others' regions: noticed from events, and where it is set denied for an outline.

It saves tokens and keeps no secret: a command whose files are only known when it runs goes
through, and is noticed where its words tell. The labels of an agent say what it owns, and others.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from prsm_core import Deny
from prsm_regions.symbols.listing import repository_of
from prsm_regions.symbols.oracle import is_below
from prsm_regions.symbols.outlines import outline_of_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_policy.shell import Command, Word

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
_GREPS = frozenset({"grep", "egrep", "fgrep"})
_GLOB = re.compile(r"[*?\[]")
_WORDS = re.compile(r"[^\s;&|()<>'\"`$={}]+")  # of a text that bash would not read, or not in time
_MAX_TEXT = 20_000


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


def _shell_reads(command: str) -> list[tuple[str, bool]]:
    """Return what a text reads under bash; what is only known when it runs is not known."""
    from prsm_policy.shell import read_script  # with the first command: it loads a grammar

    script = read_script(command)
    found: list[tuple[str, bool]] = []
    for one in script.commands:
        found += [_path_of(word, is_tree=False) for word in one.reads if word.text]
        found += _program_reads(one)
    for text in script.opaque:
        found += _words_read(text)
    return found


def _path_of(word: Word, *, is_tree: bool) -> tuple[str, bool]:
    """Return what a word names; of one that is known in part, all of the folder it begins in."""
    if not word.exact:
        return os.path.dirname(word.text) or ".", True  # noqa: PTH120 - a path, not an object
    return word.text, is_tree


def _program_reads(one: Command) -> list[tuple[str, bool]]:
    if one.name == "cd":
        return [_path_of(word, is_tree=False) for word in one.words[1:2] if word.text]
    if one.name not in _SHOWS:
        return []
    words = one.words[1:]
    texts = [word.text for word in words]
    if one.name == "git":
        if not texts or texts[0] not in _GIT_SHOWS:
            return []
        is_tree, words = texts[0] == "grep", words[1:]
        words = tuple(word.told(word.text.rpartition(":")[2]) for word in words)
    else:
        is_recursive = one.name in _GREPS and any(map(_RECURSIVE.fullmatch, texts))
        is_tree = one.name in _SEARCHES or is_recursive
    named = [_operand(word) for word in words]
    paths = [_path_of(word, is_tree=is_tree) for word in named if word.text]
    has_place = any("/" in path or "." in path for path, _ in paths)
    return [*paths, *([(".", True)] if is_tree and not has_place else [])]


def _operand(word: Word) -> Word:
    """Return what an option names, `--file=x`; any other word is what it is."""
    if not word.text.startswith("-"):
        return word
    return word.told(word.text.partition("=")[2])


def _words_read(text: str) -> list[tuple[str, bool]]:
    """Return the words of a text that could not be read, if one of them is a program that shows."""
    words = _WORDS.findall(text[:_MAX_TEXT])
    if not any(word.rpartition("/")[2] in _SHOWS for word in words):
        return []
    return [(word, False) for word in words]


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
