"""Which commands of git write a repository's data, and where that lies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Those that lock the index, or write refs, objects or settings, whatever they are told: a dry run,
# too, takes the lock.
_WRITES = (
    *("add", "am", "checkout", "cherry-pick", "commit", "commit-tree", "fast-import", "fetch"),
    *("filter-branch", "gc", "merge", "mv", "pack-refs", "prune", "pull", "push", "read-tree"),
    *("rebase", "repack", "replace", "reset", "restore", "revert", "rm", "switch"),
    *("update-index", "update-ref", "write-tree"),
)
_ACTS: Mapping[str, str] = {  # by their first operand
    "bisect": "start good bad new old skip reset replay run",
    "maintenance": "run start stop register unregister",
    "notes": "add append copy edit merge remove prune",
    "reflog": "expire delete",
    "remote": "add remove rm rename set-url set-head set-branches prune update",
    "sparse-checkout": "init set add reapply disable",
    "submodule": "add init update deinit sync set-branch set-url absorbgitdirs",
    "worktree": "add remove prune move lock unlock repair",
}
_LISTS = (  # options by which `branch` and `tag` only look
    *("-a", "-r", "-l", "--list", "-v", "-n", "--contains", "--no-contains", "--merged"),
    *("--no-merged", "--points-at", "--show-current", "--format", "--sort", "--verify"),
)
_REMOVES = frozenset({"-d", "-D", "-m", "-M", "-c", "-C", "--delete", "--move", "--copy"})
_READS_CONFIG = ("--get", "-l", "--list", "get", "list")
_SETS_CONFIG = ("--unset", "--add", "--replace-all", "--rename", "--remove", "-e", "--edit")
_SETS_FIRST = frozenset({"set", "unset", "rename-section", "remove-section", "edit"})
_ELSEWHERE = ("--git-dir", "--work-tree", "--namespace", "--bare")


def writes_data(texts: Sequence[str], place: str) -> str | None:
    """Return the folder in whose repository git with these words writes; None where in none."""
    folder, rest = _behind_globals(texts, place)
    if folder is None or not rest or {"-h", "--help"} & set(rest):
        return None
    name, options, operands = _parts(rest)
    return folder if _writes(name, options, operands) else None


def initialised(texts: Sequence[str], place: str) -> str | None:
    """Return what `git init` with these words makes, None for all else."""
    folder, rest = _behind_globals(texts, place)
    if folder is None or rest[:1] != ["init"]:
        return None
    _, options, operands = _parts(rest)
    target = str(Path(folder, operands[-1])) if operands else folder
    return target if "--bare" in options else str(Path(target, ".git"))


def written_config(texts: Sequence[str]) -> str | None:
    """Return the user's own or the system's settings, if git with these words writes them."""
    _, rest = _behind_globals(texts, "/")
    if rest[:1] != ["config"]:
        return None
    name, options, operands = _parts(rest)
    if not _writes(name, [one for one in options if one not in _CONFIGS], operands):
        return None
    return next((os.path.expanduser(_CONFIGS[o]) for o in options if o in _CONFIGS), None)  # noqa: PTH111


_CONFIGS: Mapping[str, str] = {"--global": "~/.gitconfig", "--system": "/etc/gitconfig"}


def data_folders(folder: str) -> Iterator[str]:
    """Yield where the data of the repository lies that a folder is in; it looks."""
    for parent in (Path(folder), *Path(folder).parents):
        mark = parent / ".git"
        if (mark / "HEAD").is_file():
            yield str(mark)
            return
        if mark.is_file():
            yield from _linked(mark)
            return


def _linked(mark: Path) -> Iterator[str]:
    """Yield where the data of a linked worktree or of a submodule lies."""
    try:
        name, _, told = mark.read_text(encoding="utf-8", errors="replace").partition(":")
        own = Path(os.path.normpath(mark.parent / told.strip()))
        if name.strip() != "gitdir" or not told.strip():
            return
        yield str(own)
        shared = own / "commondir"
        if shared.is_file():
            yield os.path.normpath(own / shared.read_text(encoding="utf-8").strip())
    except (OSError, UnicodeError):
        return  # git cannot read it either


def _behind_globals(texts: Sequence[str], place: str) -> tuple[str | None, list[str]]:
    """Return where git looks, None where that is not known, and its words from the name on."""
    folder: str | None = place
    rest = list(texts)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option.startswith(_ELSEWHERE):
            folder = None
        if option in {"-C", "-c"} and rest:
            value = rest.pop(0)
            if option == "-C" and folder is not None:
                folder = os.path.normpath(Path(folder, value))
    return folder, rest


def _parts(rest: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """Return the name, the options and the operands of a subcommand."""
    name, words = rest[0], list(rest[1:])
    end = words.index("--") if "--" in words else len(words)
    options = [word for word in words[:end] if word.startswith("-")]
    operands = [word for word in words[:end] if not word.startswith("-")]
    return name, options, [*operands, *words[end + 1 :]]


def _writes(name: str, options: Sequence[str], operands: Sequence[str]) -> bool:
    if name in _WRITES:
        return True
    if name in _ACTS:
        return operands[:1] != [] and operands[0] in _ACTS[name].split()
    match name:
        case "stash":
            return operands[:1] not in (["list"], ["show"])
        case "branch" | "tag":
            lists = any(option.startswith(_LISTS) for option in options)
            return bool(operands) and (not lists or bool(_REMOVES & set(options)))
        case "config":
            return _sets(options, operands)
        case "symbolic-ref":
            return len(operands) > 1 or "-d" in options
        case "hash-object":
            return "-w" in options
        case "apply":
            return bool({"--index", "--cached", "-3", "--3way"} & set(options))
    return False


def _sets(options: Sequence[str], operands: Sequence[str]) -> bool:
    """Whether `git config` writes; one that names a file is not looked into."""
    if any(option.startswith(("-f", "--file", "--blob")) for option in options):
        return False
    if any(option.startswith(_READS_CONFIG) for option in options):
        return False
    if operands and operands[0] in _READS_CONFIG:
        return False
    is_told = any(option.startswith(_SETS_CONFIG) for option in options)
    return is_told or operands[:1] in [[one] for one in _SETS_FIRST] or len(operands) > 1
