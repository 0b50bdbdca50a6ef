"""Commits of accepted changes in the person's repository: all of it or none, cut off anywhere.

What is to be done is on the disk until its owner has stored what was done. Commits are made that
nothing names. Then the index is locked, the branch moves if it is where it was, and the index takes
its place. By the branch it is told after a death whether to finish the index.

Each change is merged onto HEAD as if it alone had been made there, and onto what is staged. What
does not merge with both is left out, and so is what a filter converts: no program runs here. Line
ends are converted where the repository says so.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from prsm_core import ConfigError
from prsm_files.changes.merging import Side, Words, merged
from prsm_files.shadow.files import put_json, read_note, sync
from prsm_files.shadow.git import FEW, GitFailedError, names, persons_env, scratch
from prsm_files.shadow.place import read_head
from prsm_files.shadow.records import LINK, joined
from prsm_files.shadow.staging import IndexLock, index_stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from prsm_files.changes.merging import Wanted
    from prsm_files.shadow.place import Repository
    from prsm_files.shadow.records import Entry
    from prsm_files.shadow.root import Root
    from prsm_files.shadow.worktree import Shadow


class Asked(Struct, frozen=True, kw_only=True):
    """One commit that is asked for; `changes` are oldest first, `agents` ids, for the caller."""

    message: str
    changes: tuple[Wanted, ...]
    agents: tuple[str, ...] = ()


class Commit(Struct, frozen=True, kw_only=True):
    """A commit of one repository; its `id` is "" as long as it is not made."""

    root: str  # the repository, from the top of the folder
    message: str
    changes: tuple[str, ...]  # ids
    files: tuple[str, ...]  # from the top of the folder
    agents: tuple[str, ...] = ()
    id: str = ""


class Left(Struct, frozen=True):
    """A change that is in no commit, and why."""

    id: str
    why: str


class Held(Struct, frozen=True):
    """A change that HEAD has already, by whomever; `commit` is HEAD."""

    id: str
    commit: str


class Outcome(Struct, frozen=True, kw_only=True):
    """The commits, in their order, what is left out of all of them, and what needs none."""

    commits: tuple[Commit, ...] = ()
    left: tuple[Left, ...] = ()
    held: tuple[Held, ...] = ()


# Nobody's address is guessed, and messages are what they are here: UTF-8.
_SETTINGS = ("user.useConfigOnly=true", "i18n.commitEncoding=UTF-8", "core.safecrlf=false")

Entries = dict[str, "Entry | None"]

_HINT = "look at `git status`, and try again"


class PersonsRepository:
    """What a commit is made on, and with; the index of HEAD's tree is a file of the shadow."""

    def __init__(self, root: Root) -> None:
        if root.repository is None:
            raise ConfigError(f"{root.folder} is no repository", code="no_repository")
        self.root = root
        self.where: Repository = root.repository
        self.git = root.own_git(persons_env(root.environ), _SETTINGS)
        # First: what is read from now on may be newer.
        self.stamp = index_stamp(self.where.index)
        self.head = read_head(root.person).commit
        self.ref = self.read_ref()

    def read_ref(self) -> str | None:
        """Return the branch that HEAD is, as a ref; None where it is detached."""
        said = self.git.ask("symbolic-ref", "--quiet", "HEAD").out
        return said.decode("utf-8", "surrogateescape").strip() or None

    def tip(self, ref: str | None) -> str | None:
        """Return where a branch is now, or HEAD; None where nowhere."""
        said = self.git.ask("rev-parse", "--quiet", "--verify", f"{ref or 'HEAD'}^{{commit}}").out
        return said.decode("ascii").strip() or None

    def check_identity(self) -> None:
        """Raise ConfigError where git does not know who commits."""
        for name in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
            if self.git.ask("var", name).code:
                raise ConfigError(
                    "git does not know who you are, and a commit names its author",
                    hint='git config --global user.name "NAME", and user.email ADDRESS',
                    code="no_identity",
                )

    def begin_tree(self, index: Path) -> None:
        """Let an index be what HEAD is. Raises GitFailedError."""
        index.unlink(missing_ok=True)
        self.git.run("read-tree", *([self.head] if self.head else ["--empty"]), index=index)

    def put(self, index: Path, entries: Mapping[str, Entry | None]) -> set[str]:
        """Put entries into an index; return the paths at which there is no room for a file."""
        # First what goes: a folder may come where a file was.
        self.git.remove([path for path, entry in entries.items() if entry is None], index)
        new = [(path, entry) for path, entry in entries.items() if entry is not None]
        clashing: set[str] = set()
        for first in range(0, len(new), FEW):
            few = new[first : first + FEW]
            if not self._add(index, few):
                clashing |= {path for path, entry in few if not self._add(index, [(path, entry)])}
        return clashing

    def _add(self, index: Path, entries: Iterable[tuple[str, Entry]]) -> bool:
        """Put files into an index; False, and nothing is put, where there is no room for one."""
        words = [
            word
            for path, entry in entries
            for word in ("--cacheinfo", f"{entry.mode},{entry.blob},{path}")
        ]
        args = ("update-index", "--add", *words)
        output = self.git.ask(*args, index=index)
        if output.code and b"cannot add" not in output.err:
            raise GitFailedError(args, output)
        return not output.code

    def store(self, entries: Iterable[Entry | None]) -> None:
        """Have the repository hold contents that the shadow has. Raises GitFailedError."""
        for blob in self.git.missing({entry.blob for entry in entries if entry is not None}):
            self.git.run("hash-object", "-w", "--stdin", stdin=self.root.shadow.blob(blob))

    def commit(self, index: Path, parent: str | None, message: str) -> str:
        """Make a commit of an index, which no branch has yet. Raises GitFailedError."""
        tree = self.git.word("write-tree", "--missing-ok", index=index)
        parents = () if parent is None else ("-p", parent)
        said = message.encode("utf-8", "surrogateescape")
        return self.git.word("commit-tree", tree, *parents, "-F", "-", stdin=said)

    def move(self, new: str, why: str) -> bool:
        """Let HEAD's branch be a commit, if it is still where it was; whether it is."""
        ref = ("--no-deref", "HEAD") if self.ref is None else (self.ref,)
        # Zeros, as long as ids are here: there is to be no commit.
        old = self.head or "0" * len(new)
        return not self.git.ask("update-ref", "-m", why, *ref, new, old).code

    def has(self, commit: str, ref: str | None) -> bool:
        """Return whether a branch, or a detached HEAD, has a commit."""
        tip = self.tip(ref)
        return tip is not None and not self.git.ask("merge-base", "--is-ancestor", commit, tip).code


class _Move(Struct, frozen=True):
    """One repository's branch that moves; `ref` is None for a detached HEAD."""

    root: str
    ref: str | None
    old: str | None
    stamp: tuple[int, ...]  # of the index before
    commits: tuple[Commit, ...]

    @property
    def last(self) -> Commit:
        return self.commits[-1]


class _Intent(Struct, frozen=True):
    session: str
    moves: tuple[_Move, ...]


class _Made(NamedTuple):
    person: PersonsRepository
    lock: IndexLock
    move: _Move
    # What the index becomes.
    staged: bytes


class Committer:
    """Commits accepted changes of a folder; every method blocks. Raises PrsmError, and OSError."""

    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow
        self._intent = shadow.place / "commit.json"

    @property
    def session(self) -> str | None:
        """Whose commits were cut off; None: nobody's were."""
        begun = read_note(self._intent, _Intent)
        return None if begun is None else begun.session

    def plan(self, asked: Sequence[Asked]) -> Outcome:
        """Return what would be committed; the repository is only read."""
        with self._shadow.at_work():
            plans, left = self._plans(asked)
            commits = [one for person, plan in plans for one in _commits(person, plan, ())]
            return _outcome(commits, plans, left)

    def commit(self, session: str, asked: Sequence[Asked]) -> Outcome:
        """Commit changes. The caller stores what was done, then calls `finish`.

        Raises ConfigError, and then nothing is done: `cut_off` (see `unfinished`), `no_identity`,
        `under_way` (a merge or the like), `index_locked`, or `moved` (HEAD or the index did).
        """
        with self._shadow.at_work():
            if self._intent.exists():
                raise ConfigError(
                    f"commits of session {self.session} were cut off, and are to be finished",
                    hint=f"finish them: prsm changes list --session {self.session}",
                    code="cut_off",
                )
            plans, left = self._plans(asked)
            made = [self._made(person, plan) for person, plan in plans if plan.layers]
            if not made:
                return _outcome((), plans, left)
            intent = _Intent(session, tuple(one.move for one in made))
            put_json(self._intent, intent, is_durable=True)
            try:
                self._lock(made)
                commits, failed = self._move(made)
            except BaseException:
                self._give_up(made)
                raise
            return _outcome(commits, plans, (*left, *failed))

    def unfinished(self) -> Outcome | None:
        """End what a dead process began; return what it had done and is to be stored anew."""
        with self._shadow.at_work():
            begun = read_note(self._intent, _Intent)
            if begun is None:
                return None
            done = [commit for move in begun.moves for commit in self._ended(move)]
            if not done:
                self.finish()
                return None
            return Outcome(commits=tuple(done))

    def finish(self) -> None:
        """Note that what was done is stored."""
        self._intent.unlink(missing_ok=True)
        sync(self._intent.parent)

    def _ended(self, move: _Move) -> Sequence[Commit]:
        if not self._shadow.has_root(move.root):
            return ()
        person = PersonsRepository(self._shadow.root(move.root))
        is_done = person.has(move.last.id, move.ref)
        if not IndexLock(person.where).end(move.stamp, is_done=is_done):
            self._shadow.notes.append(
                "commits that were cut off are made, but git has gone on with its old staging "
                "area: `git reset` lets it be as HEAD is"
            )
        return move.commits if is_done else ()

    def _plans(
        self, asked: Sequence[Asked]
    ) -> tuple[list[tuple[PersonsRepository, RepositoryPlan]], list[Left]]:
        plans, left = [], []
        for path in sorted({change.root for one in asked for change in one.changes}):
            mine = [
                replace(one, changes=changes)
                for one in asked
                if (changes := tuple(change for change in one.changes if change.root == path))
            ]
            if why := self._why_not(path):
                left += [Left(c.id, why) for one in mine for c in one.changes]
                continue
            person = PersonsRepository(self._shadow.root(path))
            _check_under_way(person)
            IndexLock(person.where).check_free()
            person.check_identity()
            plans.append((person, Planner(person, mine).plan()))
        return plans, left

    def _why_not(self, path: str) -> str:
        if not self._shadow.has_root(path):
            return "its repository is gone"
        root = self._shadow.root(path)
        if root.repository is None:
            return "its folder is no repository: `git init` makes it one"
        if root.has_foreign_repository:
            where = root.repository.git_dir
            return f"its repository is {where}, which may be that of another folder"
        return ""

    def _made(self, person: PersonsRepository, plan: RepositoryPlan) -> _Made:
        for layer in plan.layers:
            person.store(layer.entries.values())
        person.store(plan.staged.values())
        ids: list[str] = []
        with scratch(person.root.place / "commit.index") as index:
            person.begin_tree(index)
            for layer in plan.layers:
                person.put(index, layer.entries)
                parent = ids[-1] if ids else person.head
                ids.append(person.commit(index, parent, layer.asked.message))
            copy_index(person, index)
            person.put(index, plan.staged)
            staged = index.read_bytes()
        commits = tuple(_commits(person, plan, ids))
        move = _Move(person.root.path, person.ref, person.head, person.stamp, commits)
        return _Made(person, IndexLock(person.where), move, staged)

    def _lock(self, made: Sequence[_Made]) -> None:
        for one in made:
            one.lock.take(one.staged)
            person = one.person
            now = person.read_ref(), person.tip(None), index_stamp(person.where.index)
            if now != (one.move.ref, one.move.old, one.move.stamp):
                raise _moved(person)
            _check_under_way(person)

    def _move(self, made: Sequence[_Made]) -> tuple[list[Commit], list[Left]]:
        """Move all branches; the first one that is elsewhere stops it, if none has moved yet."""
        commits: list[Commit] = []
        left: list[Left] = []
        for one in made:
            subject = one.move.last.message.partition("\n")[0]
            if one.person.move(one.move.last.id, f"commit (prsm): {subject}"):
                one.lock.put()
                commits += one.move.commits
            elif not commits:
                raise _moved(one.person)
            else:
                one.lock.release()
                ids = [id_ for commit in one.move.commits for id_ in commit.changes]
                left += [Left(id_, "HEAD moved meanwhile") for id_ in ids]
        return commits, left

    def _give_up(self, made: Sequence[_Made]) -> None:
        lost = [one for one in made if not one.person.has(one.move.last.id, one.move.ref)]
        for one in lost:
            one.lock.release()
        if len(lost) == len(made):
            self.finish()


def _outcome(
    commits: Sequence[Commit],
    plans: Sequence[tuple[PersonsRepository, RepositoryPlan]],
    left: Sequence[Left],
) -> Outcome:
    more = [one for _, plan in plans for one in plan.left]
    held = [Held(id_, person.head or "") for person, plan in plans for id_ in plan.held]
    return Outcome(commits=tuple(commits), left=(*more, *left), held=tuple(held))


def _commits(person: PersonsRepository, plan: RepositoryPlan, ids: Sequence[str]) -> list[Commit]:
    return [
        Commit(
            root=person.root.path,
            message=layer.asked.message,
            changes=tuple(change.id for change in layer.changes),
            files=tuple(dict.fromkeys(joined(one.root, one.inner) for one in layer.changes)),
            agents=layer.asked.agents,
            id=id_,
        )
        for layer, id_ in zip(plan.layers, ids or [""] * len(plan.layers), strict=True)
    ]


def _check_under_way(person: PersonsRepository) -> None:
    if (what := person.where.under_way) is not None:
        how = "reset" if what == "bisect" else "--continue, or --abort"
        raise ConfigError(
            f"a {what} is under way in {person.root.folder}",
            hint=f"end it first: git {what} {how}",
            code="under_way",
        )


def _moved(person: PersonsRepository) -> ConfigError:
    return ConfigError(
        f"HEAD or the staging area of {person.root.folder} moved meanwhile: nothing is committed",
        hint=_HINT,
        code="moved",
    )


_ONTO_HEAD = Words(
    gone="HEAD has no such file: what was there before is in no commit",
    removing="HEAD has another file there than the one that it deletes",
    adding="HEAD has another file there than the one that it makes",
    link="HEAD has something else there, and links and submodules do not merge",
    binary="HEAD has something else there, and it is no text",
    lines="HEAD has other lines where it changed some",
)
_ONTO_STAGED = Words(
    **dict.fromkeys(_ONTO_HEAD.__struct_fields__, "what is staged of the file is in its way")
)


class Layer(Struct, frozen=True, kw_only=True):
    """One commit to make: the changes that it holds, and what differs from the one before it."""

    asked: Asked
    changes: tuple[Wanted, ...]
    entries: Mapping[str, Entry | None]  # by path in the repository


class RepositoryPlan(NamedTuple):
    """The commits of one repository, oldest first, what its index becomes, and what is left out."""

    layers: tuple[Layer, ...]
    staged: Entries
    left: tuple[Left, ...]
    held: tuple[str, ...]  # changes that HEAD has already, by whomever


_CONVERTING = ("text", "eol", "crlf", "ident", "working-tree-encoding")


class Planner:
    """Plans the commits of one repository; writes to the shadow alone. Raises GitFailedError."""

    def __init__(self, person: PersonsRepository, asked: Sequence[Asked]) -> None:
        self._person = person
        self._asked = asked
        self._paths = sorted({change.inner for one in asked for change in one.changes})
        self._attributes = person.git.attributes(self._paths, (*_CONVERTING, "filter"))
        setting = person.git.ask("config", "--get", "core.autocrlf").out
        self._converts_all = setting.strip().lower() in {b"true", b"input", b"1"}
        env = persons_env(person.root.environ)
        self._git = person.root.own_git(env, ("core.safecrlf=false",), writes_here=True)
        self._stored: dict[tuple[str, str], str] = {}
        nothing: Entries = dict.fromkeys(self._paths)
        there = {} if person.head is None else person.git.tree(person.head, self._paths)
        self._head = {**nothing, **there}
        self._index = {**nothing, **person.git.in_index(self._paths)}
        self._held: set[str] = set()

    def plan(self) -> RepositoryPlan:
        """Return what is to be done, as far as it can be."""
        barred = self._unfit()
        while True:
            self._held.clear()
            layers, left = self._layers(barred)
            staged, more = self._staged(layers)
            more = more or self._without_room(layers, staged)
            if not more:
                return RepositoryPlan(tuple(layers), staged, tuple(left), tuple(self._held))
            barred |= more

    def _unfit(self) -> dict[str, str]:
        filters = {path: known.get("filter", "unset") for path, known in self._attributes.items()}
        found = {
            path: f"git has a filter convert it ({name}): stage it with `git add`"
            for path, name in filters.items()
            if name != "unset"
        }
        lines = names(self._person.git.run("ls-files", "-u", "-z"))
        unmerged = {line.partition("\t")[2] for line in lines} & set(self._paths)
        return found | dict.fromkeys(unmerged, "it has conflicts in the index: resolve them first")

    def _layers(self, barred: Mapping[str, str]) -> tuple[list[Layer], list[Left]]:
        """Return commits in their order. A change that builds on another agent's waits for it."""
        files = {path: Side(entry) for path, entry in self._head.items()}
        rest = [(one, one.changes) for one in self._asked]
        layers: list[Layer] = []
        left: list[Left] = []
        while rest:
            left, waiting = [], []
            count = len(layers)
            for one, changes in rest:
                taken, kept = self._taken(files, changes, barred)
                if taken:
                    entries = {change.inner: files[change.inner].entry for change in taken}
                    layers.append(Layer(asked=one, changes=tuple(taken), entries=entries))
                if kept:
                    waiting.append((one, tuple(change for change, _ in kept)))
                    left += [Left(change.id, why) for change, why in kept]
            if len(layers) == count:
                break
            rest = waiting
        return layers, left

    def _taken(
        self, files: dict[str, Side], changes: Iterable[Wanted], barred: Mapping[str, str]
    ) -> tuple[list[Wanted], list[tuple[Wanted, str]]]:
        taken: list[Wanted] = []
        kept: list[tuple[Wanted, str]] = []
        for change in changes:
            path = change.inner
            if path in barred:
                kept.append((change, barred[path]))
                continue
            side = merged(
                self._person.root,
                files[path],
                base=self._as_stored(path, change.before),
                other=self._as_stored(path, change.after),
                words=_ONTO_HEAD,
            )
            if side.why:
                kept.append((change, side.why))
            elif side.entry == files[path].entry == self._head[path]:
                self._held.add(change.id)
            else:
                files[path] = side
                taken.append(change)
        return taken, kept

    def _as_stored(self, path: str, entry: Entry | None) -> Entry | None:
        """Return an entry as the repository stores it."""
        if entry is None or not entry.blob or entry.mode == LINK or not self._converts(path):
            return entry
        known = path, entry.blob
        if known not in self._stored:
            data = self._person.root.shadow.blob(entry.blob)
            hashing = ("hash-object", "-w", "--stdin", "--path", path)
            self._stored[known] = self._git.word(*hashing, stdin=data)
        return replace(entry, blob=self._stored[known])

    def _converts(self, path: str) -> bool:
        known = self._attributes.get(path, {})
        if any(known.get(name, "unset") != "unset" for name in _CONVERTING):
            return True
        return self._converts_all and known.get("text") != "unset"

    def _staged(self, layers: Sequence[Layer]) -> tuple[Entries, dict[str, str]]:
        final: Entries = {}
        for layer in layers:
            final.update(layer.entries)
        staged: Entries = {}
        barred: dict[str, str] = {}
        for path, entry in final.items():
            now, head = self._index[path], self._head[path]
            side = merged(self._person.root, Side(now), base=head, other=entry, words=_ONTO_STAGED)
            staged[path] = side.entry
            if side.why:
                barred[path] = side.why
        return staged, barred

    def _without_room(self, layers: Sequence[Layer], staged: Entries) -> dict[str, str]:
        clashing: set[str] = set()
        with scratch(self._person.root.place / "commit.index") as index:
            self._person.begin_tree(index)
            for layer in layers:
                clashing |= self._person.put(index, layer.entries)
            copy_index(self._person, index)
            clashing |= self._person.put(index, staged)
        return dict.fromkeys(clashing, "a file and a folder have the same name there")


def copy_index(person: PersonsRepository, copy: Path) -> None:
    """Copy the person's index, whole, for changing it; none becomes an empty one."""
    try:
        shutil.copy2(person.where.index, copy)  # with its time: by it git tells what may be young
    except FileNotFoundError:
        person.git.run("read-tree", "--empty", index=copy)
        return
    person.git.run("update-index", "--no-split-index", index=copy)
