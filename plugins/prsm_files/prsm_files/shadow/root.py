"""One root's git directory: it captures the root's files, compares, and checks trees out.

Its index is kept for ever: what was captured once stays so, whatever is ignored later. What has
changed is always stored here: the repository may throw it away. A root begins with the person's own
index, as far as that tells the bytes of files: a conversion changes their size, but a filter may
not.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from prsm_core import ConfigError
from prsm_files.shadow.files import (
    is_reachable,
    put,
    put_if_new,
    put_json,
    read_json,
    stamp_of,
    why_not_stored,
)
from prsm_files.shadow.git import (
    ContentGoneError,
    GitDir,
    GitFailedError,
    as_lines,
    excludes_file,
    listed,
    names,
    scratch,
)
from prsm_files.shadow.modes import Modes, ModesKeeper
from prsm_files.shadow.place import (
    RealFolders,
    find_repository,
    is_own,
    read_head,
    roots_among,
    submodules,
)
from prsm_files.shadow.records import Change, Entry, RootState, Skipped, Staging
from prsm_files.shadow.staging import StagingKeeper

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prsm_files.shadow.git import Git
    from prsm_files.shadow.place import Repository
    from prsm_files.shadow.records import Sparing

# Nothing of what a person may configure; what is stored are the bytes that are in the files.
_CONFIG = """\
[core]
\tautocrlf = false
\tsafecrlf = false
\tattributesFile = /dev/null
\tignoreCase = false
\tsymlinks = true
\tfileMode = true
\tprotectNTFS = false
\tprotectHFS = false
\tuntrackedCache = false
\tsplitIndex = false
\tsparseCheckout = false
\tlooseCompression = 1
[gc]
\tauto = 0
[maintenance]
\tauto = false
"""
_ATTRIBUTES = "* -text -ident -filter -working-tree-encoding\n"
_OBJECTS = "objects"  # beside the git directory: where the repository's content lies
_TRIES = 3  # of files that change while they are read
# git cuts off what it says of a path that is too long for the system.
_NOT_OPENED = re.compile(rb"warning: could not open directory '([^\n]*?)(?:/?': ([^\n]*)|\n)")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_TOO_LONG = "its path is too long"

_ATTRIBUTES_FILE = ".gitattributes"
_CONVERTS_FREELY = re.compile(rb"(?:^|\s)(?:filter|working-tree-encoding)(?:=|\s|$)")
# tag, mode, id, stage, path; then lines of numbers, of which the size is the last but one
_ENTRY = re.compile(
    rb"(.) (\d{6}) ([0-9a-f]+) (\d)\t([^\0]*)\0(?:  [^\n]*\n){4}  size: (\d+)[^\n]*\n"
)


class Limits(Struct, frozen=True, kw_only=True):
    """What a snapshot holds at most."""

    file_bytes: int = 100 * 2**20  # of one file that is new or changed
    # Of a folder that is no repository: it may be somebody's home, or a whole disk.
    folder_files: int = 50_000
    folder_bytes: int = 2**30


class Captured(NamedTuple):
    """One root as it is now."""

    state: RootState
    nested: list[str]  # tops of other roots, from the top of this one
    skipped: list[Skipped]
    notes: list[str]


class _Look(NamedTuple):
    stored: dict[str, tuple[int, ...]]  # how each file is
    dropped: list[str]
    skipped: list[Skipped]
    tops: list[str]  # of repositories


def stored_at(git: Git, place: Path) -> GitDir:
    """Return the git directory of a root; its own files may be gone."""
    return GitDir(git, place / "git", place, objects=_known_objects(place), is_ours=True)


def _known_objects(place: Path) -> Sequence[Path]:
    try:
        known = Path(os.fsdecode((place / _OBJECTS).read_bytes()))
    except (FileNotFoundError, ValueError):
        return ()
    return (known,) if known.is_dir() else ()


class Root:
    """The shadow of one root; `place` is a folder of its own, `path` where the root lies."""

    def __init__(
        self,
        git: Git,
        place: Path,
        folder: Path,
        path: str,
        *,
        limits: Limits,
        environ: Mapping[str, str],
        hidden: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.path = path
        self.place = place
        self._git = git
        self._limits = limits
        self.environ = environ
        self.hidden = tuple(f"{one}/" for one in hidden)
        self.repository = find_repository(folder)
        # That of a submodule is there still where its folder was removed, or never made again.
        objects = _known_objects(place)
        git_dir = None
        if self.repository is not None:
            git_dir = self.repository.git_dir
            objects = (self.repository.objects,)
            self.person = GitDir(git, git_dir, folder)
        excludes = excludes_file(git, git_dir, folder, environ)
        settings = [f"core.excludesFile={excludes or os.devnull}"]
        self.shadow = GitDir(
            git, place / "git", folder, objects=objects, settings=settings, is_ours=True
        )
        self.modes_kept = ModesKeeper(place, folder)
        self._forced = place / "forced.json"
        self._borrowed = place / "borrowed"
        self._compared: dict[tuple[str, str], list[Change]] = {}  # what trees differ in stays so

    def own_git(
        self, env: Mapping[str, str], settings: Sequence[str] = (), *, writes_here: bool = False
    ) -> GitDir:
        """Return git on the root's repository; with `writes_here` what it stores lies here."""
        if self.repository is None:
            raise ConfigError(f"{self.folder} is no repository any more", code="no_repository")
        objects: Sequence[Path] = ()
        if writes_here:
            env = {**env, "GIT_OBJECT_DIRECTORY": str(self.shadow.path / "objects")}
            objects = [self.repository.objects]
        git_dir = self.repository.git_dir
        return GitDir(self._git, git_dir, self.folder, objects=objects, settings=settings, env=env)

    def prepare(self) -> None:
        """Make the git directory, if it is not there."""
        self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (self.shadow.path / "HEAD").exists():
            self._make()
        data = b"" if self.repository is None else self.repository.read_exclude()
        put_if_new(self.shadow.path / "info" / "exclude", data)
        if self.repository is not None:
            put_if_new(self.place / _OBJECTS, os.fsencode(self.repository.objects))
            index, commit = self.shadow.path / "index", self.borrowed_from
            if commit and self.shadow.ask("cat-file", "-e", commit).code:
                index.unlink(missing_ok=True)
            if not index.exists():
                commit = seed(self.shadow, self.person, self.repository)
                put(self._borrowed, commit.encode("ascii"))

    @property
    def borrowed_from(self) -> str:
        """The commit that the first index took its files from; if damaged, one that is nowhere."""
        noted = self._borrowed.read_text("latin-1") if self._borrowed.exists() else ""
        return noted if not noted or _COMMIT.fullmatch(noted) else "0" * 40

    def _make(self) -> None:
        new = self.place / "git.new"
        shutil.rmtree(new, ignore_errors=True)
        self.modes_kept.forget()
        form = "sha1"
        if self.repository is not None:
            form = self.person.word("rev-parse", "--show-object-format")
        made = GitDir(self._git, new, self.folder)
        made.run("init", "--quiet", "--template=", f"--object-format={form}")
        (new / "info").mkdir(exist_ok=True)
        (new / "info" / "attributes").write_text(_ATTRIBUTES, "ascii")
        with (new / "config").open("a", encoding="ascii") as file:
            file.write(_CONFIG)
        shutil.rmtree(self.shadow.path, ignore_errors=True)
        new.rename(self.shadow.path)

    def capture(self, force: Sequence[str] = ()) -> Captured:
        """Store the root as it is now, with ignored paths of `force`. Raises GitFailedError."""
        self._forget_forced(force)
        look, unsure = self._stored_look(force)
        for _ in range(_TRIES - 1):
            if unsure:
                look, unsure = self._stored_look(force)
        self.modes_kept.look(
            [*look.dropped, *look.stored], lambda: list(names(self.shadow.run("ls-files", "-z")))
        )
        tops = list(look.tops)
        if self.repository is not None:
            tops += submodules(self.folder, self.person)
        notes = [f"{path} changed while it was read" for path in unsure]
        return Captured(
            state=self._state(self.shadow.word("write-tree"), notes),
            nested=roots_among(self.folder, tops),
            skipped=look.skipped,
            notes=notes,
        )

    def _forget_forced(self, force: Sequence[str]) -> None:
        """Let what was stored for a restore alone be ignored again, and note what is new of it."""
        # What cannot be read stays stored.
        known = read_json(self._forced, list[str]) or []
        if known:
            self.shadow.remove(known)
        if not set(force) <= set(known):
            put_json(self._forced, sorted({*known, *force}))

    def _stored_look(self, force: Sequence[str]) -> tuple[_Look, list[str]]:
        """Store what differs; return it, and what of it was changed meanwhile."""
        for last in (False, False, True):
            look = self._look(force)
            try:
                self.shadow.remove(look.dropped)
                if look.stored:
                    new = listed(list(look.stored))
                    options = ("-z", "--add", "--remove", "--replace", "--stdin")
                    self.shadow.run("update-index", *options, stdin=new, alone=True)
            except GitFailedError:  # a file has gone, or got another kind, since it was looked at
                if last:
                    raise
                continue
            return look, [p for p, stamp in look.stored.items() if stamp_of(self._at(p)) != stamp]
        raise AssertionError("the last try returns or raises")

    def _changed(self) -> tuple[list[str], list[str], list[Skipped]]:
        quiet = ("--name-only", "-z", "--ignore-submodules=all", "--no-ext-diff")
        changed = list(names(self.shadow.run("diff-files", *quiet)))
        output = self.shadow.ask("ls-files", "--others", "--exclude-standard", "-z")
        if output.code:
            raise GitFailedError(("ls-files",), output)
        others = [one for one in names(output.out) if not one.startswith(self.hidden)]
        closed = [
            Skipped(
                os.fsdecode(path),
                f"the folder cannot be opened: {os.fsdecode(why) if why else _TOO_LONG}",
            )
            for path, why in _NOT_OPENED.findall(output.err)
        ]
        return changed, others, closed

    def _look(self, force: Sequence[str]) -> _Look:
        changed, others, closed = self._changed()
        look = _Look({}, [], closed, [path for path in others if path.endswith("/")])
        real = RealFolders(self.folder)
        for path in dict.fromkeys((*changed, *others, *force)):
            if path.endswith("/"):
                continue
            stamp = stamp_of(self._at(path)) if real.holds(path) else None
            reason = why_not_stored(self._at(path), stamp, self._limits.file_bytes)
            if not is_reachable(self._at(path)):
                reason = _TOO_LONG
            if reason:
                size = stamp[1] if stamp is not None else 0
                look.skipped.append(Skipped(path, reason, size))
            if stamp is None or stat.S_ISDIR(stamp[0]) or reason:
                look.dropped.append(path)
            else:
                look.stored[path] = stamp
        self._check_amount(look)
        return look

    def _check_amount(self, look: _Look) -> None:
        size = sum(stamp[1] for stamp in look.stored.values())
        most = self._limits
        is_large = len(look.stored) > most.folder_files or size > most.folder_bytes
        if self.repository is None and is_large:
            raise ConfigError(
                f"{self.folder} is no git repository, and holds {len(look.stored)} files of "
                f"{size // 2**20} MiB; stored are {most.folder_files} files of "
                f"{most.folder_bytes // 2**20} MiB at most",
                hint="`git init` makes it a repository, with a .gitignore for what is not to be "
                "stored; or go to a smaller folder",
            )

    def _state(self, tree: str, notes: list[str]) -> RootState:
        file = str(self.modes_kept.file)
        modes = self.shadow.word("hash-object", "-w", "--no-filters", "--", file)
        state = RootState(path=self.path, tree=tree, modes=modes)
        if self.repository is None:
            return state
        head = read_head(self.person)
        return replace(
            state,
            head=head.commit,
            branch=head.branch,
            under_way=self.repository.under_way,
            staging=self._copied_staging(self.repository, notes),
        )

    def _copied_staging(self, repository: Repository, notes: list[str]) -> Staging | None:
        """Return the person's index; None, and a note, if git cannot read it: files matter more."""
        try:
            return self.staging.copy()
        except (GitFailedError, OSError) as error:
            if repository.index.is_file() and not self.person.ask("ls-files").code:
                raise
            why = error.said if isinstance(error, GitFailedError) else error.strerror or str(error)
            where = self.path or "the folder"
            notes.append(f"the staging area of {where} cannot be read, and is not in it: {why}")
            return None

    @property
    def top(self) -> Path:
        """The top of the folder that the root lies in."""
        return self.folder.parents[self.path.count("/")] if self.path else self.folder

    @property
    def has_repository_inside(self) -> bool:
        """Whether its repository lies in it, below another folder: who removes it takes both."""
        where = self.repository
        return bool(self.path) and where is not None and where.objects.is_relative_to(self.folder)

    @property
    def has_foreign_repository(self) -> bool:
        """Whether its repository may be another folder's, so that nothing in it is to change."""
        return self.repository is not None and not is_own(self.repository, self.folder, self.top)

    @property
    def staging(self) -> StagingKeeper:
        """The person's index; of a root that is a repository."""
        if self.repository is None:
            raise ConfigError(f"{self.folder} is no repository any more")
        return StagingKeeper(self.shadow, self.person, self.repository)

    def modes(self, state: RootState) -> Modes:
        """Return the permissions of a state."""
        if state.modes is None:
            return Modes()
        return Modes.read(self.shadow.blob(state.modes))

    def altered(self, state: RootState, sparing: Sparing, name: str) -> RootState:
        """Return a state with files and permissions that stay as they are."""
        tree, modes = state.tree, state.modes
        if sparing.files:
            with scratch(self.place / f"{name}.index") as index:
                self.shadow.run("read-tree", tree, index=index)
                self.shadow.put(sparing.files, index)
                tree = self.shadow.word("write-tree", index=index)
        kept = (*(path for path, entry in sparing.files.items() if entry), *sparing.modes)
        if kept:
            there, all_ = RealFolders(self.folder), self.modes(state)
            for path in kept:
                all_.note(path, there.mode_of(path))
            modes = self.shadow.store(all_.to_bytes())
        return replace(state, tree=tree, modes=modes)

    def compare(self, old: str, new: str) -> list[Change]:
        """Return how one tree differs from another. Raises ContentGoneError."""
        if old == new:
            return []
        if (old, new) in self._compared:
            return self._compared[old, new]
        output = self.shadow.ask("diff-tree", "-r", "-z", "--raw", "--no-renames", old, new)
        if output.code:
            raise ContentGoneError(f"a part of the snapshot of {self.folder}")
        fields = output.out.split(b"\0")[:-1]
        pairs = zip(fields[::2], fields[1::2], strict=True)
        found = []
        for head, path in pairs:
            words = head.decode("ascii").lstrip(":").split(" ")
            before, after = (
                Entry(mode, blob) if blob.strip("0") else None
                for mode, blob in zip(words[:2], words[2:4], strict=True)
            )
            found.append(Change(self.path, os.fsdecode(path), before, after))
        self._compared[old, new] = found
        return found

    def sizes(self, blobs: Sequence[str]) -> dict[str, int | None]:
        """Return the bytes of blobs; None: it is gone."""
        args = ("cat-file", "--buffer", "--batch-check=%(objectsize)")
        told = self.shadow.run(*args, stdin=as_lines(blobs))
        found = (int(line) if line.isdigit() else None for line in told.split(b"\n"))
        return dict(zip(blobs, found, strict=False))

    def stored_bytes(self) -> int:
        """Return how much of the disk this git directory takes, about."""
        told = dict(
            line.split(b": ", 1) for line in self.shadow.run("count-objects", "-v").splitlines()
        )
        return 1024 * (int(told[b"size"]) + int(told[b"size-pack"]))

    def check_out(self, now: str, target: str) -> None:
        """Let files be the target's, where `now` differs. What raises may leave some so."""
        self.shadow.run("read-tree", "-m", "-u", "--no-recurse-submodules", now, target)

    def _at(self, path: str) -> str:
        return f"{self.folder}/{path}"


def seed(shadow: GitDir, person: GitDir, repository: Repository) -> str:
    """Begin a shadow's index with what is sure of the person's; return the commit it needs."""
    if not repository.index.is_file():
        return ""
    head = read_head(person).commit
    if head is None:
        return ""
    copy = shadow.path / "index.seed"
    # With its time: by it git tells what it must look at.
    shutil.copy2(repository.index, copy)
    try:
        if not _keep_reliable(shadow, person, repository, copy, head):
            return ""
        copy.replace(shadow.path / "index")
    finally:
        copy.unlink(missing_ok=True)
    return head


def _keep_reliable(
    shadow: GitDir, person: GitDir, repository: Repository, copy: Path, head: str
) -> bool:
    """Take out of a copy of the index what is not sure; return whether the rest can be used."""
    output = shadow.ask("ls-files", "-s", "-v", "--debug", "-z", index=copy)
    staged = shadow.ask("diff-index", "--cached", "--name-only", "-z", head, index=copy)
    if output.code or staged.code:  # an index in parts, or no commit yet
        return False
    entries = [match.groups() for match in _ENTRY.finditer(output.out)]
    if _may_convert(person.work_tree, repository, (entry[4] for entry in entries)):
        return False
    shadow.remove(sorted({*names(staged.out), *_unreliable(shadow, entries)}), copy)
    return True


def _unreliable(shadow: GitDir, entries: list[tuple[bytes, ...]]) -> Iterator[str]:
    """Yield the paths of which the index does not tell the bytes that are in the file."""
    asked = b"".join(entry[2] + b"\n" for entry in entries)
    told = shadow.run("cat-file", "--buffer", "--batch-check=%(objectsize)", stdin=asked)
    sizes = told.split(b"\n")
    for (tag, mode, _, stage, path, size), known in zip(entries, sizes, strict=False):
        if tag != b"H" or stage != b"0" or mode == b"160000" or size != known:
            yield os.fsdecode(path)


def _may_convert(folder: Path, repository: Repository, paths: Iterable[bytes]) -> bool:
    """Return whether attributes name conversions that may keep the size of a file."""
    files = {folder / _ATTRIBUTES_FILE, repository.common_dir / "info" / "attributes"}
    for path in paths:
        if path.endswith(_ATTRIBUTES_FILE.encode()):
            files.add(folder / os.fsdecode(path))
    return any(_CONVERTS_FREELY.search(_text(file)) for file in files)


def _text(file: Path) -> bytes:
    try:
        return file.read_bytes() if file.is_file() else b""
    except OSError:
        # Whoever cannot read it cannot be converted by it.
        return b""
