"""What Codex's sandbox stops, told before anybody is asked about it.

Where the tool hook asks, what is allowed stays in the sandbox. It writes the folder of the agent,
without its `.git`, and folders for temporary files; mostly it has no network. A person who is asked
about anything else says yes to what then fails. So that is refused to the model at once, as far as
its text tells it. What its text does not tell is asked about as before.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_policy.shell import read_script

from prsm_codex.command import may_edit
from prsm_codex.repositories import data_folders, initialised, writes_data, written_config

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prsm_policy.shell import Command, Script, Word

    from prsm_codex.config import CodexConfig
    from prsm_core import PermissionRequest, ProviderServices, SessionRequest

# What Codex keeps read-only in each folder that may be written, whether it is there or not.
_READ_ONLY = (".git", ".agents", ".codex", ".aws")
_DEVICES = ("/dev", "/proc")
_CHANGES_FOLDER = frozenset({"cd", "pushd", "popd"})
_ELSEWHERE = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"})
_NETWORK = frozenset({"curl", "wget", "ssh", "scp", "sftp", "ftp", "telnet", "nc", "ncat"})

# Programs that write all files they are given, or the last one, and their options with a value.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What calls of one agent may do in Codex's sandbox.

    writable: The folders that may be written, but for what is read-only in each.
    network: Whether commands may use it.
    """

    writable: tuple[str, ...]
    network: bool

    @classmethod
    def of(
        cls, request: SessionRequest, config: CodexConfig, services: ProviderServices
    ) -> Sandbox:
        """Return what `command.turn_start` and `command.exec_argv` ask Codex for."""
        folders = (request.cwd, "/tmp", str(services.state_dir / "tmp"))  # noqa: S108 - Codex's own
        writable = folders if may_edit(request) else ()
        return cls(writable=writable, network=config.network)

    def hindrance(self, wanted: PermissionRequest) -> str | None:
        """Return what a call would do and cannot, None where none is told; it looks at files."""
        if wanted.command is None:
            written = wanted.paths if wanted.tool in {"Edit", "Write"} else ()
            return self._written(written)
        script = read_script(wanted.command)
        for command, place in _placed(script, wanted.cwd):
            if (found := self._of_command(command, place)) is not None:
                return found
        return None

    def _of_command(self, command: Command, place: str | None) -> str | None:
        written = (*_targets(command, place), *self._of_git(command, place))
        if (found := self._written(written)) is not None:
            return found
        operands = [text for text in command.texts[1:] if not text.startswith("-")]
        if command.name in _NETWORK and operands and not self.network:
            return "use the network"
        return None

    def _of_git(self, command: Command, place: str | None) -> Iterator[str]:
        """Yield what git would write beside the files that it is about."""
        moved = any(one.name in _ELSEWHERE for one in command.assigned)
        if command.name != "git" or moved or not all(word.exact for word in command.words[:2]):
            return
        texts = command.texts[1:]
        if (config := written_config(texts)) is not None:
            yield config
        elif place is not None and (folder := initialised(texts, place)) is not None:
            yield folder
        elif place is not None and (folder := writes_data(texts, place)) is not None:
            yield from data_folders(folder)

    def _written(self, paths: Sequence[str]) -> str | None:
        return next((f"write {path}" for path in paths if not self._is_writable(path)), None)

    def _is_writable(self, path: str) -> bool:
        real = os.path.realpath(path)
        if _is_in(real, _DEVICES):
            return True
        roots = [os.path.realpath(folder) for folder in self.writable]
        kept = (str(Path(root, name)) for root in roots for name in _READ_ONLY)
        return _is_in(real, roots) and not _is_in(real, kept)


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _placed(script: Script, cwd: str) -> Iterator[tuple[Command, str | None]]:
    """Yield commands, each with the folder where it runs; None where that is not known."""
    is_known = script.plain or all(one.name not in _CHANGES_FOLDER for one in script.commands)
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
    """Yield the files that a command says it writes."""
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
    """Return the operands of a command that are files which it writes."""
    valued = _WRITES_ALL.get(command.name) or _WRITES_LAST.get(command.name)
    if valued is None or any(text.startswith(_INTO) for text in command.texts):
        return ()
    found: list[Word] = []
    rest = iter(command.words[1:])
    for word in rest:
        if word.text in valued.split():
            next(rest, None)
        elif not word.text.startswith("-"):
            found.append(word)
    return found if command.name in _WRITES_ALL else found[-1:] if len(found) > 1 else ()
