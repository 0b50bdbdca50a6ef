"""What git says of the repository of a folder, and which of its settings start programs.

Git is asked by commands that start no program of the repository. An answer comes from files that
git has named, and holds while these are as they were.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from prsm_core.policies import UnaskedError, word_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# For one answer, of which git itself takes a hundredth. A busy machine may take all of it, and the
# engine goes on meanwhile.
SECONDS = 5.0
_END_SECONDS = 0.1  # for a git that was killed
_MOST_KEPT = 256  # answers
# ns: a file that changed so shortly before it was read may change again and look the same. Such an
# answer holds as long as it may take to decide by it.
_SETTLED = 2_000_000_000
_YOUNG = 250_000_000

_WHERE = ("--absolute-git-dir", "--show-toplevel", "--git-common-dir")
_HOOK = "hooks/post-index-change"  # the one that runs when a look refreshes the index
# What decides whether git takes a folder for a repository, and what the rest of an answer is from.
_NAMES = (*(_HOOK, "HEAD", "objects", "refs", "commondir", "config", "config.worktree"), "index")
_PATHS = tuple(word for name in _NAMES for word in ("--git-path", name))
_SETTINGS = ("config", "-z", "--list", "--show-scope", "--show-origin", "--includes")
_ENTRIES = ("-c", "core.fsmonitor=false", "ls-files", "-z", "--stage", "--full-name", ":/")
# What it says of a folder in and above which there is none, even if something is called .git.
_NO_REPOSITORY = b"fatal: not a git repository (or any "
_LINK = re.compile(rb"(?:^|\0)160000 [0-9a-f]+ \d\t([^\0]+)")
_INCLUDE = re.compile(r"include(?:if\..*)?\.path", re.DOTALL)

_Stamp = tuple[int, ...]
# Whatever the subcommand: it pages, refreshes the index, compares files, looks into submodules
# that only the history knows, or checks signatures.
_ALWAYS = re.compile(
    r"core\.(?:fsmonitor|pager|alternaterefscommand)|pager\..*|hook\..*\.event"
    r"|diff\.(?:external|submodule)|status\.submodulesummary|diff\..*\.(?:textconv|command|external)|interactive\.difffilter"
    r"|filter\..*\.(?:clean|smudge|process)|merge\..*\.driver"
    r"|gpg\.(?:.*\.)?(?:program|defaultkeycommand)|log\.showsignature"
    r"|lfs\.(?:extension|customtransfer)\..*",
    re.DOTALL,
)
_FALSE = word_set("false no off 0") | {""}
_BOOLEAN = _FALSE | word_set("true yes on 1")
_HARMLESS = {
    "core.fsmonitor": _BOOLEAN,  # git's own daemon, or none
    "diff.submodule": word_set("short"),
    "log.showsignature": _FALSE,
    "status.submodulesummary": _FALSE,
}
# What git's own extension for large files is configured with; it is the user's program.
_LARGE_FILES = re.compile(
    r"git-lfs (?:clean|smudge)(?: --skip)? -- %f|git-lfs filter-process(?: --skip)?"
)
# Settings of the way to other machines.
_REMOTE = re.compile(
    r"core\.(?:sshcommand|askpass|gitproxy)|credential\.(?:.*\.)?helper|ssh\.variant"
    r"|remote\..*\.(?:uploadpack|receivepack|vcs|proxy)|protocol\.(?:.*\.)?allow"
    r"|url\..*\.(?:insteadof|pushinsteadof)|http\.(?:.*\.)?(?:sslcert|proxy|cookiefile).*",
    re.DOTALL,
)
_URL = re.compile(r"remote\..*\.(?:push)?url", re.DOTALL)
# What is served by a program of another machine, not by one that works in a repository here.
_ELSEWHERE = re.compile(
    r"(?:https?|git|ssh)://[\w\[].*|[\w.][\w.@-]*:(?!:).*", re.ASCII | re.DOTALL
)
_HELPER_URL = re.compile(r"[a-z0-9+.-]+::|-|ext:|fd:|ssh://-", re.IGNORECASE)
_GOES_OUT = word_set("remote ls-remote fetch pull push clone submodule archive")
# With one of these git fetches an object that is missing, whatever asks for it.
_PROMISES = re.compile(
    r"remote\..*\.(?:promisor|partialclonefilter)|extensions\.partialclone", re.DOTALL
)
_CREDENTIAL_CACHE = re.compile(r"(?:|cache|store|osxkeychain|manager|manager-core|libsecret)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of git: a key with all but its subsection in small letters, and its value.

    `origin` is its file. `is_persons` if that is of the user or the system, or included from there.
    """

    key: str
    value: str
    origin: str
    is_persons: bool = False


def starts(name: str, settings: Sequence[Setting]) -> bool:
    """Return whether a subcommand may start a program that one of the settings names."""
    aliases = {f"alias.{name}", f"alias.{name}.command"}  # a newer git takes it for an old command
    if any(_starts_always(each.key, each.value) or each.key in aliases for each in settings):
        return True
    fetches = any(_PROMISES.fullmatch(each.key) for each in settings)
    if fetches and any(
        _URL.fullmatch(each.key) and not _ELSEWHERE.fullmatch(each.value) for each in settings
    ):
        return True
    goes_out = fetches or name in _GOES_OUT
    return goes_out and any(_starts_remote(each.key, each.value) for each in settings)


def recurses(name: str, settings: Sequence[Setting]) -> bool:
    """Return whether a subcommand looks into submodules, even those that are not checked out."""
    return name == "grep" and any(
        each.key == "submodule.recurse" and each.value.lower() not in _FALSE for each in settings
    )


def _starts_always(key: str, value: str) -> bool:
    if not _ALWAYS.fullmatch(key):
        return False
    if key in _HARMLESS:
        return value.lower() not in _HARMLESS[key]
    if key.startswith("pager."):
        return value.lower() not in _BOOLEAN  # a page as the user configures it
    if key.startswith("hook."):
        return value == "post-index-change"
    if key.startswith("filter.lfs."):
        return not _LARGE_FILES.fullmatch(value)
    return value != ""


def _starts_remote(key: str, value: str) -> bool:
    if _URL.fullmatch(key):
        return _HELPER_URL.match(value) is not None
    if key.startswith("credential."):
        return not _CREDENTIAL_CACHE.fullmatch(value)
    return _REMOTE.fullmatch(key) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What git says of a repository; at the hook and the submodules there may be nothing."""

    work_tree: str
    settings: tuple[Setting, ...] = ()
    hook: str = ""
    submodules: tuple[str, ...] = ()


@dataclass(slots=True)
class _Kept:
    """An answer and of what it came; None where git has given none."""

    asked_at: int
    answer: Answer | None = None
    stamps: dict[str, _Stamp] = field(default_factory=dict)
    is_settled: bool = False

    def holds(self, now: int) -> bool:
        return (self.is_settled or now - self.asked_at < _YOUNG) and all(
            _stamp(path) == stamp for path, stamp in self.stamps.items()
        )


class Repositories:
    """The answers of git about folders that hold a `.git`, in this process."""

    def __init__(self, *, now: Callable[[], int] = time.time_ns, seconds: float = SECONDS) -> None:
        self._seconds = seconds  # for one answer
        self._now = now  # ns, of the clock that files are stamped by
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def of(self, folder: str, *, waits: bool) -> Answer | None:
        """Return what git says of a resolved folder with a `.git`; None where it says nothing.

        Raises UnaskedError instead of waiting for it, unless the caller waits.
        """
        kept = self._kept.get(folder)
        if kept is None or not kept.holds(self._now()):
            if not waits:
                raise UnaskedError(partial(self._ask, folder))
            kept = self._ask(folder)
        return kept.answer

    def _ask(self, folder: str) -> _Kept:
        kept = _Kept(self._now())
        with suppress(OSError, ValueError, subprocess.SubprocessError):
            _Question(folder, kept, self._seconds).ask()
        self._kept[folder] = kept
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return kept


class _Question:
    """Asks git about one folder; what cannot be read for sure is a ValueError."""

    def __init__(self, folder: str, kept: _Kept, seconds: float) -> None:
        self._folder = folder
        self._until = time.monotonic() + seconds
        self._kept = kept
        program = shutil.which("git")
        if program is None or not os.path.isabs(program):  # noqa: PTH117 - a text
            raise ValueError("there is no git")
        self._program = program

    def ask(self) -> None:
        own = f"{self._folder}/.git"
        self._note(own)
        lines = self._layout(own)
        if lines is None:
            self._kept.answer = Answer(work_tree=self._folder)
            return
        git_dir, work_tree, common, resolved, hook, *files = (
            os.path.join(self._folder, line)  # noqa: PTH118 - a text
            for line in lines
        )
        if os.path.realpath(resolved) != os.path.realpath(git_dir):
            raise ValueError("git takes another repository than the nearest")
        if work_tree != self._folder and hook.startswith(self._folder):
            raise ValueError("the hook may be meant from elsewhere")
        self._note(git_dir, *files)
        settings = tuple(self._settings(work_tree))
        # What is configured here could be started by the next command.
        is_hostile = starts("", [each for each in settings if not each.is_persons])
        links = () if is_hostile else _LINK.findall(self._run(*_ENTRIES))
        self._kept.answer = Answer(
            settings=settings,
            work_tree=work_tree,
            hook=hook,
            submodules=tuple(f"{work_tree}/{os.fsdecode(link)}" for link in links),
        )
        changed = (max(stamp[2:4], default=0) for stamp in self._kept.stamps.values())
        self._kept.is_settled = (
            max(changed) + _SETTLED < self._kept.asked_at
            and _leads(own, "gitdir: ", self._folder, git_dir)
            and _leads(f"{git_dir}/commondir", "", git_dir, os.path.realpath(common))
        )

    def _layout(self, own: str) -> Sequence[str] | None:
        """Return where all is; None where git sees no repository, and so starts nothing."""
        try:
            out = self._run("rev-parse", *_WHERE, "--resolve-git-dir", own, *_PATHS)
        except subprocess.CalledProcessError as error:
            if error.stderr.startswith(_NO_REPOSITORY):
                return None
            raise
        *lines, end = os.fsdecode(out).split("\n")
        if end or len(lines) != len(_WHERE) + 1 + len(_NAMES):
            raise ValueError("git answers in another way")
        return lines

    def _settings(self, work_tree: str) -> Iterable[Setting]:
        entries = os.fsdecode(self._run(*_SETTINGS)).split("\0")
        if entries.pop() or len(entries) % 3:
            raise ValueError("git lists settings in another way")
        for scope, origin, entry in zip(*[iter(entries)] * 3, strict=True):
            if scope == "command":
                continue
            kind, _, path = origin.partition(":")
            key, equals, value = entry.partition("\n")
            if kind != "file" or "\n" in origin:
                raise ValueError("a setting comes from what is no file")
            path = os.path.join(work_tree, path)  # noqa: PTH118 - a text
            setting = Setting(
                key=key,
                value=value if equals else "true",
                origin=path,
                is_persons=scope in {"system", "global"},
            )
            self._note(path)
            if _INCLUDE.fullmatch(key):
                self._note_included(setting)
            yield setting

    def _note_included(self, setting: Setting) -> None:
        """Note a file that is included, for it may not be there yet."""
        if setting.value.startswith("%(") and not setting.is_persons:
            raise ValueError("it cannot be told which file is included")
        folder = os.path.dirname(setting.origin)  # noqa: PTH120 - a text
        to = os.path.expanduser(setting.value)  # noqa: PTH111 - a text
        self._note(os.path.join(folder, to))  # noqa: PTH118 - a text

    def _note(self, *paths: str) -> None:
        for path in paths:
            self._kept.stamps.setdefault(path, _stamp(path))

    def _run(self, *words: str) -> bytes:
        process = subprocess.Popen(
            [self._program, *words],
            cwd=self._folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            out, err = process.communicate(timeout=max(0.0, self._until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            with suppress(subprocess.TimeoutExpired):  # a disk that does not answer
                process.communicate(timeout=_END_SECONDS)
            raise
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, words, stderr=err)
        return out


def _environment() -> dict[str, str]:
    own = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return own | {"LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}


def _stamp(path: str) -> _Stamp:
    """Return what tells whether a file was changed; of a folder only, which one it is."""
    try:
        info = os.stat(path)  # noqa: PTH116 - for each file of each decision
    except OSError as error:
        return (error.errno or -1,)
    if stat.S_ISDIR(info.st_mode):
        return info.st_dev, info.st_ino
    return info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns, info.st_size


def _leads(path: str, before: str, folder: str, target: str) -> bool:
    """Return whether a file leads to a folder as git writes it, so that no link stands between.

    A folder at that path leads nowhere, and neither does nothing.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a text
            text = os.fsdecode(file.read(4096))
    except (FileNotFoundError, IsADirectoryError):
        return True
    return text in {f"{before}{way}\n" for way in (target, os.path.relpath(target, folder))}
