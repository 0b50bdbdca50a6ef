"""Takes back what a person has said: which prompt that is, and where the conversation goes then.

The files go back to the snapshot before the prompt, and the conversation by a *fork* of the session
at the commit before it. The restore comes first and owes that: what cuts it off leaves both undone,
or has the next command do both. The undo of it *takes up* the session that was left. One in which
nothing was said before is *set aside*. What is owed is JSON values, beside the files, with the way
back.

Of a file that no agent has changed since, all that differs is the person's, and stays. In others
the steps that were not agents' are made again on what the snapshot holds, three ways. Where these
do not merge the file stays as it is.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from prsm_core import ConfigError, StoreError
from prsm_core.domain.writes.runs import SessionSetAside, SessionTakenUp
from prsm_core.door import ChangedFile, UndoReport
from prsm_core.engine.forking import ForkRequest, fork_session
from prsm_core.files import COMMITTED, REJECTED, MessageType, path_text
from prsm_files.changes.merging import TAKING_BACK, Side, merged
from prsm_files.session.deciding import is_of_agents, wanted
from prsm_files.session.naming import session_step
from prsm_files.shadow.acts import nothing_to_undo
from prsm_files.shadow.records import AUTOMATIC, Left, Sparing, joined
from prsm_files.shadow.trackers import KNOWN, TRACKERS, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_core import Store
    from prsm_core.door import DecidedChange
    from prsm_core.files import Ids, SessionSnapshot, SessionState
    from prsm_files.changes.acting import Acted
    from prsm_files.shadow.acts import Act, Owed
    from prsm_files.shadow.records import Change, Entry, Plan, Restored, RootPlan
    from prsm_files.shadow.root import Root
    from prsm_files.shadow.worktree import Shadow


WAYS = ("prompt", "turn", "act")  # of an undo
MOST_DIGITS = 3  # of the number of a prompt; what is longer is the beginning of an id


class Prompt(Struct, frozen=True, kw_only=True):
    """A prompt of a person that is to be taken back, with all that came after it."""

    session: str
    snapshot: SessionSnapshot  # the files before it
    later: int  # prompts that came after it, and go with it
    position: int  # of the newest commit of the session
    owner: str | None  # whose commit the conversation goes back to; None: nothing was said before

    @property
    def pinned(self) -> str:
        """What finds just this prompt again, whatever is said meanwhile."""
        return f"{self.snapshot.snapshot_id}@{self.snapshot.last_commit}"

    def owed(self, ids: Ids, *, with_files: bool = True) -> Owed:
        """Return what becomes of the conversation; a restore, if it is `with_files`, owes it."""
        left = LeftSession(self.session, self.position)
        if self.owner is None:
            return set_aside_owed(left, ids)
        before, fork = self.snapshot.last_commit, ids.ulid()
        return fork_owed(self.owner, before, fork, left, with_files=with_files)


async def find_prompt(store: Store, session: str, wanted: str | None = None) -> Prompt:
    """Return the prompt of a number or a snapshot, else the newest. Raises ConfigError."""
    state = await store.state(session)
    kept = [one for one in reversed(state.snapshots) if one.kind in AUTOMATIC]
    if not kept:
        raise nothing_kept(session)
    snapshot = _chosen(kept, wanted)
    owner, seq = await _before(store, state, snapshot.last_commit)
    said = 0
    async for event in store.events(session, after=seq):
        is_prompt = event.type == "message_routed" and event.data["kind"] == MessageType.USER_PROMPT
        said += event.type == "run_started" or is_prompt
    return Prompt(
        session=session,
        snapshot=snapshot,
        later=max(0, said - 1),
        position=state.position,
        owner=owner,
    )


async def known_since(store: Store, prompt: Prompt, shadow: Shadow) -> Known:
    """Return who has changed files since a prompt, as far as its session found that."""
    before: set[str] = set()
    if prompt.owner is not None:
        then = await store.state(prompt.owner, prompt.snapshot.last_commit)
        before = {row.change.id for row in then.changes}
    steps = defaultdict[str, list[Step]](list)
    for row in await store.changes(prompt.session):
        if row.change.id not in before and row.state != REJECTED:
            [change] = wanted([row])
            steps[change.path].append(Step(change.before, change.after, is_of_agents(row)))
    is_whole = not (shadow.place / TRACKERS / name_of(prompt.session) / KNOWN).exists()
    return Known(steps=dict(steps), is_whole=is_whole)


def files_gone(prompt: Prompt) -> ConfigError:
    """Return the error of a prompt whose snapshot was dropped, or deleted, since."""
    name, session = prompt.snapshot.snapshot_id, prompt.session
    return ConfigError(
        f"the files before the prompt {prompt.snapshot.description!r} are kept no more: snapshot "
        f"{name} was dropped, as workspace.keep_* says, or deleted",
        hint=f"`prsm undo --prompt {name} --keep-files --session {session}` takes the conversation "
        f"back alone, `prsm reject --all --session {session}` the changes that are pending",
        code="unknown_snapshot",
    )


def _chosen(kept: Sequence[SessionSnapshot], wanted: str | None) -> SessionSnapshot:
    text = (wanted or "1").strip().lower()
    if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS:
        if not 0 < int(text) <= len(kept):
            raise ConfigError(
                f"there is no prompt {text}: those that can be taken back are 1 to {len(kept)}",
                hint="1 is the newest one",
                code="unknown_prompt",
            )
        return kept[int(text) - 1]
    name, _, position = text.partition("@")
    fits = [one for one in kept if name and one.snapshot_id.startswith(name)]
    if position:
        fits = [one for one in fits if str(one.last_commit) == position]
    if not fits:
        raise ConfigError(
            f"{wanted!r} is no snapshot before a prompt of this session",
            hint="`prsm snapshot list` shows those of kind run and prompt, with the session",
            code="unknown_prompt",
        )
    if len({one.snapshot_id for one in fits}) > 1:
        raise ConfigError(
            f"several snapshots begin with {wanted!r}",
            hint="give more of the id",
            code="ambiguous_prompt",
        )
    return fits[0]


async def _before(store: Store, state: SessionState, position: int) -> tuple[str | None, int]:
    """Return whose commit comes before a prompt, if anybody lived then, and the newest event."""
    if position <= 0:
        return None, 0
    shared = (one.session_id for one in state.origins if position <= one.position)
    owner = next(shared, state.session_id)
    before = await store.state(owner, position)
    return owner if before.agents else None, before.seq


def told(prompt: Prompt | None, session: str | None, restored: Restored | None) -> UndoReport:
    """Return what was taken back, as `Changes.undo` tells it."""
    report = UndoReport()
    if restored is not None:
        safety, differs = restored.safety.id, tuple(restored.differs)
        plan = told_plan(restored.plan, restored.notes)
        report = replace(plan, snapshot=safety, act=safety, differs=differs)
    if prompt is not None:
        what = prompt.snapshot.description
        report = replace(report, origin=prompt.session, prompt=what, later=prompt.later)
    return replace(report, session=session)


def told_plan(plan: Plan, notes: Sequence[str] = ()) -> UndoReport:
    """Return what a restore changes, as `Snapshots.restore` tells it."""
    changes = tuple(ChangedFile(path=path, change=kind) for kind, path in plan.files())
    unquiet = plan.snapshot.unquiet
    wrote = (f"an agent wrote while that snapshot was taken: {one}" for one in unquiet)
    return UndoReport(
        restored=plan.snapshot.id,
        files=len(changes),
        changes=changes,
        notes=(*plan.notes, *notes, *wrote),
        spared=tuple(map(path_text, plan.spared)),
        stays=tuple(one.told() for one in plan.stays),
    )


def told_acted(acted: Acted, decided: Iterable[DecidedChange]) -> UndoReport:
    """Return what the undo of an act did, as `Changes.undo` tells it."""
    wrote = acted.act.wrote
    return UndoReport(
        files=len(wrote),
        changes=tuple(ChangedFile(path=path_text(one.name), change=one.kind) for one in wrote),
        decided=tuple(decided),
        act=acted.id,
        stays=tuple(one.told() for one in acted.stays),
    )


def find_act(shadow: Shadow, wanted: str | None) -> Act:
    """Return the act that is meant, the last one if none is said. Raises ConfigError."""
    act = shadow.acts.last() if wanted is None else shadow.acts.find(wanted)
    if act is not None:
        return act
    if wanted is None:
        raise nothing_to_undo()
    raise ConfigError(
        f"there is no act {wanted!r} in this folder",
        hint="`prsm undo --list` shows those there are",
        code="unknown_act",
    )


class Step(NamedTuple):
    """A change of a file that was found since the snapshot."""

    before: Entry | None
    after: Entry | None
    is_agents: bool


class Known(Struct, frozen=True, kw_only=True):
    """Who has changed which files since a snapshot."""

    steps: Mapping[str, Sequence[Step]]  # of each file, from the top of the folder, oldest first
    is_whole: bool  # agents have changed nothing else: each of their calls was looked at

    def spare(self, root: Root, plan: RootPlan) -> Sparing:
        """Return what of a root stays, or stays in part. Raises GitFailedError."""
        files: dict[str, Entry | None] = {}
        stays: list[Left] = []
        for change in plan.changes:
            side = self._side(root, change)
            if side.why:
                stays.append(Left(change.name, side.why))
            if side.entry != change.after:
                files[change.path] = side.entry
        modes = [path for path in plan.permissions if self._is_persons(joined(root.path, path))]
        return Sparing(files=files, modes=tuple(modes), stays=tuple(stays))

    def _is_persons(self, path: str) -> bool:
        steps = self.steps.get(path, ())
        return not any(one.is_agents for one in steps) and (bool(steps) or self.is_whole)

    def _side(self, root: Root, change: Change) -> Side:
        now = change.before
        if self._is_persons(change.name):
            return Side(now)
        side = Side(change.after)
        for step in self._others(change.name, now):
            side = merged(root, side, base=step.before, other=step.after, words=TAKING_BACK)
            if side.why:
                return Side(now, f"what is yours in it does not come apart: {side.why}")
        return side

    def _others(self, path: str, now: Entry | None) -> Sequence[Step]:
        """Return the steps of a file that were not agents', with what came after the last look."""
        steps = self.steps.get(path, ())
        others = [one for one in steps if not one.is_agents]
        if steps and self.is_whole and steps[-1].after != now:
            others.append(Step(steps[-1].after, now, is_agents=False))
        return others


FORK, TAKE_UP, SET_ASIDE = "fork", "take_up", "set_aside"
# Codes of errors: what was owed can never be done.
_GONE = frozenset({"unknown_session", "unknown_position", "no_master"})


class LeftSession(NamedTuple):
    """The session that was gone on with until then, and its newest commit."""

    session: str
    position: int


def fork_owed(owner: str, position: int, fork: str, left: LeftSession, *, with_files: bool) -> Owed:
    """Return that a session is to be forked after a commit, under the id `fork`."""
    way = {"session": owner, "position": position, "fork": fork, "files": with_files}
    return {"act": FORK, **way, "left": list(left)}


def set_aside_owed(left: LeftSession, ids: Ids) -> Owed:
    """Return that the session that is left is to be set aside."""
    return {"act": SET_ASIDE, "session": left.session, "id": ids.ulid(), "left": list(left)}


def session_after(owed: Owed | None) -> str | None:
    """Return the session that is gone on with after what is owed; None: none, or as before."""
    if owed is None or owed.get("act") == SET_ASIDE:
        return None
    return str(owed["fork"] if owed.get("act", FORK) == FORK else owed["session"])


async def way_back(store: Store, last: Act, ids: Ids) -> Owed | None:
    """Return what a restore owes that takes the last one back; None: it is of files alone."""
    if last.then is None or "left" not in last.then:
        return None
    now, before = session_after(last.then), last.then["left"]
    known = {info.session_id for info in await store.sessions()}
    if not {one for one in (now, before and before[0]) if one is not None} <= known:
        return None
    left = None if now is None else LeftSession(now, (await store.state(now)).position)
    if before is None:
        return None if left is None else set_aside_owed(left, ids)
    session, position = before
    way = {"act": TAKE_UP, "session": session, "as_of": position, "id": ids.ulid()}
    return {**way, "left": None if left is None else list(left)}


def sessions_of(owed: Owed | None) -> Sequence[str]:
    """Return the sessions that nobody is to go on with while what is owed is done."""
    if owed is None:
        return ()
    left = owed.get("left") or (None,)
    return tuple(dict.fromkeys(one for one in (left[0], owed["session"]) if one is not None))


async def carry_out(store: Store, owed: Owed, ids: Ids, now: float) -> str | None:
    """Do what a restore owes, once, however often it is tried; return `session_after`."""
    act, session = owed.get("act", FORK), str(owed["session"])
    if act == FORK:
        fork = str(owed["fork"])
        if all(info.session_id != fork for info in await store.sessions()):
            position, with_files = int(owed["position"]), bool(owed.get("files", True))
            request = ForkRequest(position=position, session_id=fork, with_files=with_files)
            await fork_session(store, session, request, ids, now)
        return session_after(owed)
    write: SessionTakenUp | SessionSetAside = SessionSetAside()
    if act == TAKE_UP:
        # The restore has brought these back to another state.
        states = {row.change.id: row.state for row in await store.changes(session)}
        then = (await store.state(session, int(owed["as_of"]))).changes
        rows = (row for row in then if states[row.change.id] not in {row.state, COMMITTED})
        write = SessionTakenUp(changes=tuple(rows))
    run = (await store.state(session)).runs[-1].run_id
    await store.commit(session_step(session, f"{session}:{act}:{owed['id']}", run, now, write))
    return session_after(owed)


async def finish_owed(store: Store, owed: Owed, *, ids: Ids, now: float) -> str:
    """Do what a process that has died still owed; return what is told of it. Raises StoreError."""
    is_fork = owed.get("act", FORK) == FORK
    what = "of a prompt " if is_fork else ""
    where = "as before it" if is_fork else "back"
    try:
        session = await carry_out(store, owed, ids, now)
    except StoreError as error:
        if error.code not in _GONE:
            raise
        why = f"the conversation stays: {error.message}"
        return f"an undo {what}was cut off: the files are {where}, and {why}"
    has = f"session {session} has the conversation before it"
    if not is_fork:
        has = "the next run begins anew" if session is None else f"session {session} is the newest"
    return f"an undo {what}that was cut off is finished: the files are {where}, and {has}"


def nothing_kept(session: str) -> ConfigError:
    """Return the error of a session without any prompt that can be taken back."""
    return ConfigError(
        f"of no prompt in session {session} the files before it are kept",
        hint="none was said, it ended before it changed any, or `workspace.snapshots` is off; "
        f"`prsm fork {session} --at EVENT` takes the conversation back alone",
        code="unknown_prompt",
    )


def check_way(what: str) -> None:
    """Raise ConfigError for what no AppHandle undoes."""
    if what not in WAYS:
        raise ConfigError(
            f"{what!r} cannot be undone", hint=f"undo one of {', '.join(WAYS)}", code="unknown_undo"
        )


def run_open(session: str) -> ConfigError:
    """Return the error of an undo below agents that work."""
    return ConfigError(
        f"a run is open in session {session}: its agents work with what would be taken back",
        hint=f"end it first: press Ctrl-C where it runs, or `prsm kill master --session {session}`",
        code="run_open",
    )


def not_kept() -> ConfigError:
    """Return the error of an engine that keeps no files."""
    hint = "let `workspace.snapshots` be something else than off"
    return ConfigError("files are not kept here", hint=hint, code="no_snapshots")
