"""Calls that Codex's sandbox stops, found before anybody is asked about them.

With the tool hook, allowed calls stay in the sandbox. They may write the agent's folder without its
`.git`, and temporary folders. Mostly they have no network. A person who allows anything else sees
it fail. So it is refused to the model at once, as far as its text shows what it does.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_policy.shell import read_script

from prsm_codex.command import may_edit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prsm_policy.shell import Command, Script, Word

    from prsm_codex.config import CodexConfig
    from prsm_core import Clock, PermissionRequest, ProviderServices, SessionRequest

_DEVICES = ("/dev", "/proc")
_CHANGES_FOLDER = frozenset({"cd", "pushd", "popd"})
_ELSEWHERE = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"})
_NETWORK = frozenset({"curl", "wget", "ssh", "scp", "sftp", "ftp", "telnet", "nc", "ncat"})

# Programs that write all files in their arguments, or the last one, and their options with a value.
_WRITES_ALL: Mapping[str, str] = {
    **dict.fromkeys(("mkdir", "mv", "rm", "rmdir", "tee"), "-m --mode -S --suffix"),
    "touch": "-r --reference -d --date -t",
    "truncate": "-s --size -r --reference",
}
_WRITES_LAST: Mapping[str, str] = {
    **dict.fromkeys(("cp", "ln"), "-S --suffix"),
    "install": "-m --mode -o --owner -g --group -S --suffix",
}
_INTO = ("-t", "--target-directory")
_MAY_BE_THERE = frozenset({"mkdir"})  # then it has nothing to do
_MAY_BE_GONE = frozenset({"rm", "rmdir"})

# Git's commands that lock the index, or write refs, objects or settings, whatever their arguments:
# a dry run also takes the lock.
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
_FOLDER_OPTIONS = ("--git-dir", "--work-tree", "--namespace", "--bare")
_CONFIGS: Mapping[str, str] = {"--global": "~/.gitconfig", "--system": "/etc/gitconfig"}

# On Linux the sandbox mounts over these names in each writable folder. It creates those that are
# missing, and its helper removes them after the command. An interrupt also kills the helper, and no
# later one removes what another created (Codex 0.169, issue 31599 of openai/codex): an empty `.git`
# would stay among the person's files. Codex keeps a registry below its TMPDIR: a folder for each
# path, named by the path's hash, with a file for each helper that uses it, named by its process id.
READ_ONLY = (".git", ".agents", ".codex", ".aws")
_CREATED = "synthetic"
_PAUSE_SECONDS = 0.05  # between two looks whether a helper has died


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What calls of one agent may do in Codex's sandbox.

    writable: The folders that may be written, but for what is read-only in each.
    network: Whether commands may use it.
    temp: The folder for temporary files that Codex is given.
    """

    writable: tuple[str, ...]
    network: bool
    temp: Path

    @classmethod
    def of(
        cls, request: SessionRequest, config: CodexConfig, services: ProviderServices
    ) -> Sandbox:
        """Return what `command.turn_start` and `command.exec_argv` ask Codex for."""
        temp = services.state_dir / "tmp"
        folders = (request.cwd, "/tmp", str(temp))  # noqa: S108 - Codex's own
        writable = folders if may_edit(request) else ()
        return cls(writable=writable, network=config.network, temp=temp)

    async def clean(self, clock: Clock, *, seconds: float) -> None:
        """Remove what a killed sandbox left in the writable folders.

        Its helper takes a moment to die. While one runs, look again, for so many seconds: it may
        also be that of another agent, which removes what it has created itself.
        """
        until = clock.now() + seconds
        while not await asyncio.to_thread(remove_mount_points, self.temp, self.writable):
            if clock.now() >= until:
                return
            await clock.sleep(_PAUSE_SECONDS)

    def hindrance(self, wanted: PermissionRequest) -> str | None:
        """Return what a call would do that the sandbox stops, if anything. This looks at files."""
        if wanted.command is None:
            return self._forbidden(wanted.paths if wanted.tool in {"Edit", "Write"} else ())
        commands = _placed(read_script(wanted.command), wanted.cwd)
        hindrances = (self._of_command(command, place) for command, place in commands)
        return next(filter(None, hindrances), None)

    def _of_command(self, command: Command, place: str | None) -> str | None:
        written = (*_targets(command, place), *self._of_git(command, place))
        if (hindrance := self._forbidden(written)) is not None:
            return hindrance
        operands = [text for text in command.texts[1:] if not text.startswith("-")]
        if command.name in _NETWORK and operands and not self.network:
            return "use the network"
        return None

    def _of_git(self, command: Command, place: str | None) -> Iterator[str]:
        """Yield what git would write besides the files in its arguments."""
        moved = any(variable.name in _ELSEWHERE for variable in command.assigned)
        if command.name != "git" or moved or not all(word.exact for word in command.words[:2]):
            return
        texts = command.texts[1:]
        if (config := written_config(texts)) is not None:
            yield config
        elif place is not None and (folder := initialised(texts, place)) is not None:
            yield folder
        elif place is not None and (folder := writes_data(texts, place)) is not None:
            yield from data_folders(folder)

    def _forbidden(self, paths: Sequence[str]) -> str | None:
        return next((f"write {path}" for path in paths if not self._is_writable(path)), None)

    def _is_writable(self, path: str) -> bool:
        real = os.path.realpath(path)
        if _is_in(real, _DEVICES):
            return True
        roots = [os.path.realpath(folder) for folder in self.writable]
        read_only = (str(Path(root, name)) for root in roots for name in READ_ONLY)
        return _is_in(real, roots) and not _is_in(real, read_only)


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _placed(script: Script, cwd: str) -> Iterator[tuple[Command, str | None]]:
    """Yield each command with the folder where it runs, None if that is not known."""
    is_known = script.plain or not any(c.name in _CHANGES_FOLDER for c in script.commands)
    place: str | None = cwd if is_known else None
    for command in script.commands:
        if command.name not in _CHANGES_FOLDER:
            yield command, place
        elif is_known and not command.piped:
            place = _entered(command, place)


def _entered(command: Command, place: str | None) -> str | None:
    if command.name != "cd" or len(command.words) != 2:
        return None
    return _path(command.words[1], place)


def _path(word: Word, place: str | None) -> str | None:
    """Return the path that a word stands for; None where that is not known."""
    if not word.exact or word.glob or not word.text or word.text == "-":
        return None
    text = os.path.expanduser(word.text) if word.tilde else word.text  # noqa: PTH111 - text alone
    if text.startswith("~") or (place is None and not text.startswith("/")):
        return None
    return os.path.normpath(Path(place or "/", text))


def _targets(command: Command, place: str | None) -> Iterator[str]:
    words = [*command.writes, *_operands(command)]
    for word in words:
        path = _path(word, place)
        if path is None:
            continue
        is_there = os.path.lexists(path)
        has_none = (command.name in _MAY_BE_THERE and is_there) or (
            command.name in _MAY_BE_GONE and not is_there
        )
        if word in command.writes or not has_none:
            yield path


def _operands(command: Command) -> Sequence[Word]:
    valued = _WRITES_ALL.get(command.name) or _WRITES_LAST.get(command.name)
    if valued is None or any(text.startswith(_INTO) for text in command.texts):
        return ()
    operands: list[Word] = []
    rest = iter(command.words[1:])
    for word in rest:
        if word.text in valued.split():
            next(rest, None)
        elif not word.text.startswith("-"):
            operands.append(word)
    return operands if command.name in _WRITES_ALL else operands[-1:] if len(operands) > 1 else ()


def writes_data(texts: Sequence[str], place: str) -> str | None:
    """Return the folder in whose repository git writes with these words, if it does."""
    folder, rest = _behind_globals(texts, place)
    if folder is None or not rest or {"-h", "--help"} & set(rest):
        return None
    name, options, operands = _parts(rest)
    return folder if _writes(name, options, operands) else None


def initialised(texts: Sequence[str], place: str) -> str | None:
    """Return what `git init` would make with these words; None for other commands."""
    folder, rest = _behind_globals(texts, place)
    if folder is None or rest[:1] != ["init"]:
        return None
    _, options, operands = _parts(rest)
    target = str(Path(folder, operands[-1])) if operands else folder
    return target if "--bare" in options else str(Path(target, ".git"))


def written_config(texts: Sequence[str]) -> str | None:
    """Return the user's or the system's settings file, if git writes it with these words."""
    _, rest = _behind_globals(texts, "/")
    if rest[:1] != ["config"]:
        return None
    name, options, operands = _parts(rest)
    if not _writes(name, [option for option in options if option not in _CONFIGS], operands):
        return None
    return next((os.path.expanduser(_CONFIGS[o]) for o in options if o in _CONFIGS), None)  # noqa: PTH111


def data_folders(folder: str) -> Iterator[str]:
    """Yield where the data lies of the repository that a folder is in. This looks at files."""
    for parent in (Path(folder), *Path(folder).parents):
        mark = parent / ".git"
        if (mark / "HEAD").is_file():
            yield str(mark)
            return
        if mark.is_file():
            yield from _linked(mark)
            return


def _linked(mark: Path) -> Iterator[str]:
    """Yield where the data of a linked worktree or a submodule lies."""
    try:
        name, _, folder = mark.read_text(encoding="utf-8", errors="replace").partition(":")
        own = Path(os.path.normpath(mark.parent / folder.strip()))
        if name.strip() != "gitdir" or not folder.strip():
            return
        yield str(own)
        shared = own / "commondir"
        if shared.is_file():
            yield os.path.normpath(own / shared.read_text(encoding="utf-8").strip())
    except (OSError, UnicodeError):
        return  # git cannot read it either


def _behind_globals(texts: Sequence[str], place: str) -> tuple[str | None, list[str]]:
    """Return git's folder, None if it is not known, and the words from its subcommand on."""
    folder: str | None = place
    rest = list(texts)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option.startswith(_FOLDER_OPTIONS):
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
    """Whether `git config` writes the repository's own settings."""
    action = operands[0] if operands else ""
    others = ("-f", "--file", "--blob", *_READS_CONFIG)
    if action in _READS_CONFIG or any(option.startswith(others) for option in options):
        return False
    is_set = any(option.startswith(_SETS_CONFIG) for option in options)
    return is_set or action in _SETS_FIRST or len(operands) > 1


def remove_mount_points(temp: Path, folders: Iterable[str]) -> bool:
    """Remove what a Codex with this TMPDIR created in writable folders and no longer uses.

    Return whether it uses nothing there.
    """
    registry = temp / f"codex-bwrap-synthetic-mount-targets-{os.getuid()}"
    try:
        lock = (registry / "lock").open("rb")
    except FileNotFoundError:
        return True
    # Codex holds the lock while it registers a helper, so nobody begins to use a path meanwhile.
    paths = [Path(folder, name) for folder in folders for name in READ_ONLY]
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        users = [registry / f"{path_hash(os.fsencode(path)):016x}" for path in paths]
        removed = [_remove(*each) for each in zip(paths, users, strict=True)]
    return all(removed)


def _remove(path: Path, users: Path) -> bool:
    """Remove an unused mount point; return whether nothing uses it."""
    try:
        helpers = list(users.iterdir())
    except FileNotFoundError:
        return True
    if any(_is_running(helper.name) for helper in helpers):
        return False
    if any(helper.read_text().strip() == _CREATED for helper in helpers):
        # What is not empty is the person's by now.
        with contextlib.suppress(OSError):
            path.rmdir()
    for helper in helpers:
        helper.unlink()
    users.rmdir()
    return True


def _is_running(pid: str) -> bool:
    try:
        stat = Path("/proc", pid, "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def path_hash(data: bytes) -> int:
    """Return the 64-bit FNV-1a hash by which Codex names a path."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value
