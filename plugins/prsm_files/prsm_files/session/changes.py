"""What agents change: found around their calls, attributed, written into the ledger, and told.

Before a call is let in the folder is compared with what it was, and after it has ended; calls that
come or end meanwhile share the next look. Of a call that names its files these alone are looked
at. Without git, or where the folder cannot be read, the run goes on and nothing is found,
which is told once.

The calls are on the disk, too: whoever goes on after a crash finds out what those had changed.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import secrets
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from prsm_core import ConfigError, PrsmError
from prsm_core.files import Author as ChangeAuthor
from prsm_core.files import FileChange, FileChanged, path_text
from prsm_core.permissions.edits import EDIT_TOOLS, NEW, OLD, WHOLE
from prsm_files.changes.attribution import (
    NOBODY,
    Cell,
    Edit,
    Hands,
    Replacement,
    attribute,
    is_below,
)
from prsm_files.changes.attribution import WritingCall as WrittenCall
from prsm_files.changes.tracing import find_origin, patch
from prsm_files.changes.tracker import Tracker
from prsm_files.session.deciding import wanted
from prsm_files.session.naming import newest_run, session_step
from prsm_files.session.verdicts import SessionOwner, Verdicts
from prsm_files.shadow.files import put_json, read_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

    from prsm_core.files import ChangeRow, FilesContext, Folders, Hold, WritingCall
    from prsm_files.changes.attribution import Attributed
    from prsm_files.changes.tracing import Origin
    from prsm_files.changes.tracker import Scan
    from prsm_files.session.keeper import FilesKeeper
    from prsm_files.shadow.worktree import Shadow


T = TypeVar("T")
_UNDONE = "what was decided about changes in {}, and cut off, is not finished"

APART_SECONDS = 0.25  # between two looks
HOLD_SECONDS = 600.0  # for a person, who decides
SHOWN = 10  # files that a notice names
OUTSIDE = "../"  # stands for a file that is not in the folder: the call writes nothing in it
_ID_BYTES = 5
_UNSEEN = "what changes in {} is not found"


class ChangeWatch(SessionOwner):
    """Owns the tracked state of the folder, and scans it when calls end."""

    def __init__(self, keeper: FilesKeeper, of: FilesContext, folders: Folders) -> None:
        super().__init__(of.store, of.session)
        self._keeper = keeper
        self._of = of
        self._folders = folders
        self._folder = Path(of.workspace)
        self._moments = itertools.count(1)
        self._calls = OpenCalls(self._tick)
        self._hands = Hands(self._is_at_work)
        self._tracker: Tracker | None = None
        self._is_open = False  # a run is, and what is found is told
        self._is_looking = False
        self._ready = asyncio.Event()  # the folder is known
        self._ready.set()
        self._last = float("-inf")
        self._looked = 0  # when the last look at all began that has found what there was
        self.verdicts = Verdicts(self)

    def _tick(self) -> int:
        return next(self._moments)

    async def use(self, work: Callable[[Shadow], T]) -> T:
        """Do what needs the shadow of the folder, in a thread. Raises PrsmError, and OSError."""
        return await self._keeper.use(self._folder, work)

    async def attempt(self, work: Callable[[Shadow], T]) -> T | None:
        """Finish something that was cut off; None where that fails, and why is told."""
        return await self._keeper.attempt(self._folder, work, _UNDONE)

    async def _watch(self, work: Callable[[Tracker], T]) -> T | None:
        """Look at the folder; None where that fails, and that is told. git may be a new process."""
        return await self._keeper.attempt(
            self._folder, lambda shadow: work(self._current(shadow)), _UNSEEN
        )

    def begin(self) -> None:
        """Take the folder as it is before the run, or go on after a crash; others wait."""
        self._is_open, self._ready = True, asyncio.Event()
        self._of.background.launch(self._begin(self._ready), name="the files as they are")

    async def _begin(self, ready: asyncio.Event) -> None:
        try:
            stored = {row.change.scan for row in await self.store.changes(self.session)}
            began = self._tick()
            started = await self._keeper.attempt(
                self._folder, lambda shadow: self._start(shadow, stored), _UNSEEN
            )
            # Whoever came before an empty beginning needs no look of its own. Why there is none
            # was told.
            if started is not None and not started[1]:
                self._looked = began
            is_left = started is not None and self._keep_calls(*started)
            self._is_open &= started is not None
            # Once the folder is known: what it writes is nobody's change.
            await self.verdicts.recover()
            if is_left:
                await self._look_at_all()
        finally:
            ready.set()

    def _start(self, shadow: Shadow, stored: set[str]) -> tuple[Path, Sequence[WrittenCall]]:
        """Know the folder, in the thread; return where open calls are kept, and what is there."""
        new_id = partial(secrets.token_hex, _ID_BYTES)
        tracker = Tracker(shadow, self.session, tick=self._tick, new_id=new_id)
        file = tracker.place / "calls.json"
        left = read_calls(file) if tracker.has_begun else ()
        tracker.go_on(stored.__contains__) if left else tracker.begin()
        self._tracker = tracker
        return file, left

    def _keep_calls(self, file: Path, left: Sequence[WrittenCall]) -> bool:
        # Not in the thread: calls begin and end meanwhile, and two would write the one file.
        try:
            self._calls.keep_in(file, left)
        except OSError as error:
            self._is_open = False
            text = f"{_UNSEEN.format(self._folder)}: {error}"
            self._of.journal.tell("notice", level="warning", text=text)
        return bool(left) and self._is_open

    async def before(self, call: WritingCall) -> None:
        """Look at the files that a call names, or at all of them, just before it runs."""
        asked = self._tick()
        await self._ready.wait()
        if not self._is_open:
            return
        if paths := self.paths(call):
            await self._observe(paths)
        else:
            await self._look_at_all(since=asked)

    async def _observe(self, named: frozenset[str]) -> None:
        paths = named - {OUTSIDE}
        if not paths:
            return
        await self._ready.wait()
        async with self.lock:
            await self._watch(lambda tracker: tracker.observe(paths))

    def begins(self, call: WritingCall) -> None:
        """Take note of a call that runs."""
        turn, owned = self._of.turn_of(call.agent), self._owned(call)
        self._calls.begins(
            call,
            turn=None if turn is None else turn.turn_id,
            paths=self.paths(call),
            edits=self._edits(call),
            region=owned,
            leased=(*self._leased(call.agent), *(owned or ())),
        )

    def is_named(self, old: WritingCall, new: WritingCall) -> None:
        """Take note of what a call that runs is called."""
        self._calls.is_named(old, new, self._edits(new))

    def owns(self, call: WritingCall, owned: tuple[str, ...]) -> None:
        """Take note of the files that a call writes, nobody else, and no others."""
        self._calls.owns(call, self._places(owned))

    def look_at(self, shadow: Shadow, files: tuple[str, ...]) -> None:
        """Look at files now, if they are in the folder; it blocks: whoever calls has the keeper."""
        tracker = self._tracker
        if tracker is not None and tracker.shadow.folder == shadow.folder:
            self._current(shadow).observe(self._places(files))

    def ends(self, call: WritingCall, *, has_run: bool) -> None:
        """Take note of a call that has ended; what it has changed is looked for soon."""
        ended = self._calls.ends(call, has_run=has_run)
        if self._is_open and ended is not None and not self._is_looking:
            self._is_looking = True
            self._of.background.launch(self._look(ended.paths), name="a look at the files")

    async def _look(self, named: frozenset[str]) -> None:
        try:
            if named:
                await self._observe(named)
            while self._is_open and self._calls.have_ended:
                pause = self._last + APART_SECONDS - self._of.clock.now()
                if pause > 0:
                    await self._of.clock.sleep(pause)  # one that is let in meanwhile may look
                elif not await self._look_now():
                    break  # why was told; the end of the next call tries again
        finally:
            self._is_looking = False

    async def finish(self) -> None:
        """Find all that has changed until now; nothing is told any more until `begin`."""
        if not self._is_open:
            return
        # An engine that is left does not wait for a folder that is not known: no call wrote there.
        is_known = self._ready.is_set() or not self._of.journal.is_suspended
        is_all_found = is_known and await self._look_now()
        self._is_open = False
        # Where something was not found that was told: the next run finds it, as after a death.
        if is_all_found:
            # Whoever goes on with the run makes them anew.
            self._calls.forget()
            if self._tracker is not None:
                await self._watch(Tracker.end)

    async def flush(self) -> None:
        """Find what calls that have ended have changed."""
        if self._is_open and self._calls.have_ended:
            await self._look_now()

    async def _look_now(self) -> bool:
        await self._ready.wait()
        return self._is_open and await self._look_at_all()

    async def _look_at_all(self, since: int | None = None) -> bool:
        """Look once, unless a look began `since` a moment; False: it failed, and calls are kept."""
        async with self.lock:
            if since is not None and since < self._looked:
                return True
            began, calls = self._tick(), self._calls.all
            scan = await self._watch(lambda tracker: tracker.scan(calls))
            self._last = self._of.clock.now()
            if scan is None:
                return False
            self._looked = began
            await self._store_found(scan)
            self._calls.looked(began)
            return True

    def _current(self, shadow: Shadow) -> Tracker:
        if self._tracker is None:
            raise PrsmError(
                "what the files were is not known", hint="the next run looks at them again"
            )
        self._tracker.use(shadow)
        return self._tracker

    async def _store_found(self, scan: Scan) -> None:
        for note in scan.notes:
            self._of.journal.tell("notice", level="warning", text=note)
        if not scan.found:
            return
        all_ = attribute(scan.found, self._calls.all, hands=self._hands, are_one=self._are_one)
        changes = [self._change(scan, number, one) for number, one in enumerate(all_, 1)]
        self._tell_conflicts(all_)  # first: whoever sees the event knows that they were told
        step_id = f"{self._of.journal.run_id}:changes:{scan.id}"
        await self.commit(step_id, *(FileChanged(change=change) for change in changes))
        await self._watch(lambda tracker: tracker.settle(scan))

    async def commit(self, step_id: str, *writes: Any) -> None:
        """Commit a step of the session, in the run that is open, or was last."""
        of = self._of
        run = of.journal.run_id or await newest_run(of.store, of.session)
        await of.journal.commit(session_step(of.session, step_id, run, of.clock.time(), *writes))

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[Callable[[set[str]], None]]:
        """Let no call begin; yield what raises ConfigError if one runs that may write files."""
        async with self._of.quiet.hold(limit=HOLD_SECONDS) as hold:
            yield partial(self._require_quiet, hold)

    def _require_quiet(self, hold: Hold, meant: set[str]) -> None:
        calls = ((call, self.paths(call)) for call in hold.disturbing)
        racing = [call for call, named in calls if not named or named & meant]
        if racing and meant:
            writers = "; ".join(self._of.journal.redact(str(call)) for call in racing)
            raise ConfigError(
                f"nothing was taken back, because an agent writes here: {writers}",
                hint="let it end, or end it with `prsm kill`, then try again",
                code="agents_write",
            )

    def _change(self, scan: Scan, number: int, one: Attributed) -> FileChange:
        folder = self._folder if self._tracker is None else self._tracker.shadow.folder
        found = one.found
        (old_mode, before), (new_mode, after) = (
            (None, None) if side is None else (side.mode, side.blob)
            for side in (found.before, found.after)
        )
        return FileChange(
            id=f"{scan.id}-{number}",
            scan=scan.id,
            path=path_text(found.path),
            root=path_text(found.root),
            folder=path_text(str(folder)),
            kind=found.kind,
            old_mode=old_mode,
            new_mode=new_mode,
            before=before,
            after=after,
            added=found.added,
            removed=found.removed,
            how=one.how,
            authors=tuple(ChangeAuthor(call.agent, call.call, call.turn) for call in one.calls),
            beside=one.beside,
            note=next((side.why for side in (found.before, found.after) if side and side.why), ""),
        )

    def _tell_conflicts(self, changes: Sequence[Attributed]) -> None:
        """Tell each agent on a file who else is on it: it may know an older text of it."""
        told = defaultdict[str, dict[str, set[str]]](lambda: defaultdict(set))
        for one in changes:
            all_ = {*([call.agent for call in one.calls] or [NOBODY]), *one.beside}
            for agent in all_ - {NOBODY} if one.beside else ():
                told[agent][one.found.path] |= all_ - {agent}
        for agent, files in told.items():
            lines = [
                f"- {path_text(path)}: {', '.join(sorted(map(self._name, others)))}"
                for path, others in sorted(files.items())[:SHOWN]
            ]
            if len(files) > SHOWN:
                lines.append(f"- and {len(files) - SHOWN} more")
            what = "Files that you have changed were changed by others, too:"
            end = "Read them again before you change them further."
            self.tell(agent, "\n".join([what, *lines, end]))

    def _name(self, agent: str) -> str:
        if agent == NOBODY:
            return "the user, or another program"
        record = self._of.roster.find(agent)
        return agent if record is None else record.descriptor.name

    def _is_at_work(self, agent: str) -> bool:
        record = self._of.roster.find(agent)
        return record is not None and not record.is_over

    def _are_one(self, one: str, other: str) -> bool:
        """Whether one of two agents is above the other: who is above has it work for itself."""
        known = self._of.roster.find(one) and self._of.roster.find(other)
        if known is None:
            return one == other
        return one in self._of.roster.lineage(other) or other in self._of.roster.lineage(one)

    def paths(self, call: WritingCall) -> frozenset[str]:
        """Return the files of the folder that a call says it writes."""
        tracker = self._tracker
        if tracker is None or call.command is not None:
            return frozenset()
        places = (_at(call.cwd, path) for path in call.paths)
        return frozenset(tracker.place_of(place) or OUTSIDE for place in places)

    def _edits(self, call: WritingCall) -> tuple[Edit, ...]:
        if call.command is not None:
            return ()
        found = []
        for edit in edits_of(call.tool, call.arguments, call.paths):
            path, source = (
                None if one is None else self._place(_at(call.cwd, one))
                for one in (edit.path, edit.source)
            )
            if path is not None:
                found.append(replace(edit, path=path, source=source))
        return tuple(found)

    def _owned(self, call: WritingCall) -> tuple[str, ...] | None:
        """Return the only files that a call may write: none here in a worktree. None: any."""
        if call.owned is not None:
            return self._places(call.owned)
        record = self._of.roster.find(call.agent)
        is_apart = record is not None and self._folders.top(record.descriptor.cwd) is not None
        return () if is_apart else None

    def _place(self, path: str) -> str | None:
        return None if self._tracker is None else self._tracker.place_of(path)

    def _places(self, files: Iterable[str]) -> tuple[str, ...]:
        return tuple(place for file in files if (place := self._place(file)) is not None)

    def _leased(self, agent: str) -> tuple[str, ...]:
        """Return the folders that an agent has for itself: others are kept from them."""
        region = self._of.roster.get(agent).descriptor.grant.region or ()
        others = {folder for folder, _ in self._of.leases(agent)} if region else set()
        return self._places(folder for folder in region if not is_below(folder, others))

    async def rows(self) -> Sequence[ChangeRow]:
        """Return all changes of the session, oldest first; those of calls that have ended too."""
        await self.flush()
        return await self.store.changes(self.session)

    async def patch(self, rows: Sequence[ChangeRow]) -> str:
        """Return what changes did to lines. Raises PrsmError where git or the folder is not fit."""
        asked = [row.change for row in rows]
        return await self.use(lambda shadow: patch(shadow, asked))

    async def origin(self, rows: Sequence[ChangeRow], line: int) -> Origin:
        """Return which change of a file, newest first, made a line of it; see `find_origin`."""
        asked = wanted(rows[::-1])
        return await self.use(lambda shadow: find_origin(shadow, asked, line))

    @asynccontextmanager
    async def while_others_write(self) -> AsyncIterator[None]:
        """Let PRSM write here by another process: no call that ended before has done that."""
        await self.flush()
        try:
            yield
        finally:
            await self._look_now()
            await self.verdicts.recover()

    def learn(self, shadow: Shadow) -> None:
        """Know now what PRSM itself has written: what comes behind it is of calls; it blocks."""
        if self._tracker is not None:
            self._current(shadow).observe(())

    def tell(self, agent: str, text: str) -> None:
        """Tell an agent something with its next answer or prompt, if it is still at work."""
        turn = self._of.turn_of(agent)
        if turn is not None and self._is_at_work(agent):
            turn.tell(text)


def _at(folder: str, path: str) -> str:
    return os.path.join(folder, path)  # noqa: PTH118 - a name that need not be UTF-8


UNNAMED = ""  # the id of a call that its provider has not named

_PATHS = ("file_path", "notebook_path", "path")
_EVERYWHERE = ("replace_all", "allow_multiple")
_FILE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVE = re.compile(r"\*\*\* Move to: (.+)")


class OpenCalls:
    """Owns calls that run, and those that ended since the last look; `tick` counts moments up."""

    def __init__(self, tick: Callable[[], int]) -> None:
        self._tick = tick
        self._running: list[tuple[WritingCall, WrittenCall]] = []
        self._ended: list[WrittenCall] = []
        self._file: Path | None = None

    @property
    def all(self) -> Sequence[WrittenCall]:
        """All that may have made a change since the last look."""
        return [*self._ended, *(call for _, call in self._running)]

    @property
    def have_ended(self) -> bool:
        """Whether some have ended since the last look began."""
        return bool(self._ended)

    def keep_in(self, file: Path, left: Sequence[WrittenCall]) -> None:
        """Keep them in a file from now on, with those `left` by a dead process. Raises OSError."""
        self._ended += left
        self._file = file
        try:
            self._write()
        except OSError:
            self._file = None
            raise

    def begins(self, one: WritingCall, **known: Any) -> None:
        """Take note of a call that may write from now on, as `WrittenCall` knows it."""
        # Whatever clock an engine has: files are stamped by that of the system.
        call = WrittenCall(
            agent=one.agent,
            call=one.call or UNNAMED,
            began=self._tick(),
            span=(time.time(), inf),
            **known,
        )
        self._running.append((one, call))
        self._write()

    def _find(self, one: WritingCall) -> int | None:
        return next((at for at, (call, _) in enumerate(self._running) if call is one), None)

    def is_named(self, old: WritingCall, new: WritingCall, edits: tuple[Edit, ...]) -> None:
        """Take note of what a call is called, and of what it says it does."""
        if (at := self._find(old)) is not None:
            call = self._running[at][1]
            known = replace(call, call=new.call or UNNAMED, edits=call.edits or edits)
            self._running[at] = new, known

    def owns(self, one: WritingCall, owned: tuple[str, ...]) -> None:
        """Take note of the files that a call writes alone from now on. Raises OSError."""
        if (at := self._find(one)) is not None:
            call, began = self._running[at][1], self._tick()
            known = replace(call, region=owned, leased=owned, is_apart=True, began=began)
            self._running[at] = one, known
            self._write()

    def ends(self, one: WritingCall, *, has_run: bool) -> WrittenCall | None:
        """Take note of a call that writes no more, and return it if it has run at all."""
        if (at := self._find(one)) is None:
            return None
        _, call = self._running.pop(at)
        if not has_run:
            return None
        ended = replace(call, ended=self._tick(), span=(call.span[0], time.time()))
        self._ended.append(ended)
        return ended

    def looked(self, moment: int) -> None:
        """Forget those that had ended when a look began that has found what they did."""
        before = len(self._ended)
        self._ended = [one for one in self._ended if one.ended is None or one.ended >= moment]
        if len(self._ended) != before:
            self._write()

    def forget(self) -> None:
        """Know none any more: nothing of them runs. Raises OSError."""
        self._running.clear()
        self._ended.clear()
        self._write()

    def _write(self) -> None:
        if self._file is not None:
            # What they say they do is not kept: a file may be long, and deaths are few.
            put_json(self._file, [replace(one, edits=()) for one in self.all])


def read_calls(file: Path) -> Sequence[WrittenCall]:
    """Return the calls that a process which has died had at work; none where that is not known."""
    calls = read_json(file, list[WrittenCall]) or ()
    return [replace(one, began=0, ended=0) for one in calls]  # before all looks of this process


def edits_of(
    tool: str, arguments: Mapping[str, Any], paths: Sequence[str] = ()
) -> tuple[Edit, ...]:
    """Return what a call says it does to files: one of `paths`, if its arguments name none."""
    if tool not in EDIT_TOOLS:
        return ()
    if isinstance(diff := arguments.get("diff"), str):
        return tuple(_of_patch(diff.removesuffix("\n").split("\n")))
    path = _text(arguments, _PATHS) or (paths[0] if len(paths) == 1 else None)
    edit = None if path is None else _of_file(path, arguments)
    return () if edit is None else (edit,)


def _of_file(path: str, arguments: Mapping[str, Any]) -> Edit | None:
    if "new_source" in arguments or arguments.get("edit_mode") == "delete":
        is_gone = arguments.get("edit_mode") == "delete"
        return Edit(path=path, cell=Cell(None if is_gone else str(arguments["new_source"])))
    given = arguments.get("edits")
    edits = _parsed(given) if isinstance(given, str) else given
    told = edits if isinstance(edits, (list, tuple)) and edits else [arguments]
    found = [_replacement(one) for one in told if isinstance(one, Mapping)]
    replacements = tuple(one for one in found if one is not None)
    if replacements:
        return Edit(path=path, replacements=replacements)
    content = _text(arguments, WHOLE)
    return None if content is None else Edit(path=path, content=content)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _replacement(told: Mapping[str, Any]) -> Replacement | None:
    old, new = _text(told, OLD), _text(told, NEW)
    if old is None and new is None:
        return None
    count = told.get("expected_replacements")
    is_several = isinstance(count, int) and count > 1
    is_everywhere = is_several or any(told.get(name) is True for name in _EVERYWHERE)
    return Replacement(old or "", new or "", is_everywhere=is_everywhere)


def _text(told: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((told[name] for name in names if isinstance(told.get(name), str)), None)


def _of_patch(lines: Sequence[str]) -> Iterator[Edit]:
    place = 0
    while place < len(lines):
        head = _FILE.fullmatch(lines[place].rstrip())
        is_unified = lines[place].startswith("--- ") and _is_head(lines, place + 1)
        place += 1
        if head is not None:
            end = _end_of(lines, place)
            yield from _of_part(head[1], head[2].strip(), lines[place:end])
            place = end
        elif is_unified:
            end = _end_of(lines, place + 1)
            yield _updated(lines[place][4:].split("\t")[0].rstrip(), lines[place + 1 : end])
            place = end


def _is_head(lines: Sequence[str], place: int) -> bool:
    return place < len(lines) and lines[place].startswith("+++ ")


def _end_of(lines: Sequence[str], place: int) -> int:
    while place < len(lines):
        line = lines[place]
        if _FILE.fullmatch(line.rstrip()) or line.startswith("*** End Patch"):
            return place
        if line.startswith("--- ") and _is_head(lines, place + 1):
            return place
        place += 1
    return place


def _of_part(what: str, path: str, lines: Sequence[str]) -> Iterator[Edit]:
    if what == "Delete":
        yield Edit(path=path, is_removed=True)
    elif what == "Add":
        yield Edit(path=path, content="".join(f"{line[1:]}\n" for line in lines if line[:1] == "+"))
    elif lines and (move := _MOVE.fullmatch(lines[0].rstrip())):
        yield Edit(path=path, is_removed=True)
        yield _updated(move[1].strip(), lines[1:], source=path)
    else:
        yield _updated(path, lines)


def _updated(path: str, lines: Sequence[str], source: str | None = None) -> Edit:
    hunks: list[tuple[list[str], list[str]]] = []
    is_headed = bool(lines) and lines[0].startswith("--- ") and _is_head(lines, 1)
    for line in lines[2 * is_headed :]:
        if line.startswith("@@") or not hunks:
            hunks.append(([], []))
        if line.startswith(("@@", "\\", "*** ")):
            continue
        old, new = hunks[-1]
        if line[:1] != "+":
            old.append(line[1:])
        if line[:1] != "-":
            new.append(line[1:])
    replacements = tuple(
        Replacement(_joined(old), _joined(new), is_lines=True) for old, new in hunks if old or new
    )
    return Edit(path=path, replacements=replacements, source=source)


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
