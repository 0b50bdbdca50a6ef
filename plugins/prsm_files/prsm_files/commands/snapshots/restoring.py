"""Goes back to a snapshot, or to before a prompt: the question first, then what was done."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct, to_builtins

from prsm_core import ConfigError
from prsm_core.commands import (
    SessionLock,
    held,
    install_child_watcher,
    open_ledger,
    open_session,
    require_quiet,
    run_to_end,
    say,
    workspace_paths,
)
from prsm_core.files import Ids, repo_identity
from prsm_core.kit import escape_exact
from prsm_files.commands.changes.knowing import carry_out_now, end_restore, settle_all
from prsm_files.commands.snapshots.opening import (
    SHOWN,
    open_engine,
    open_shadow,
    require_terminal,
    with_shadow,
)
from prsm_files.commands.snapshots.showing import say_plan, told_plan
from prsm_files.session.taking_back import (
    Prompt,
    files_gone,
    find_prompt,
    known_since,
    session_after,
    sessions_of,
    told,
    way_back,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prsm_core.door import UndoReport
    from prsm_files.shadow.acts import Act, Owed
    from prsm_files.shadow.records import Plan, Restored
    from prsm_files.shadow.worktree import Shadow, Spare


def restore_snapshot(
    workspace: str, wanted: str, *, is_sure: bool, with_staging: bool, as_json: bool
) -> int:
    """Restore a snapshot, once the person says so; return the exit code. Raises PrsmError."""
    if not is_sure:
        plan = with_shadow(workspace, lambda shadow: shadow.plan(wanted))
        wanted = plan.snapshot.id
        ask(plan, f"restore snapshot {wanted}")

    install_child_watcher()
    return tell(run_to_end(_restore(workspace, wanted, with_staging)), as_json=as_json)


async def _restore(workspace: str, wanted: str, with_staging: bool) -> Restored:
    async with held(workspace_paths(workspace).state, Path(workspace)) as writers:
        require_quiet(writers)
        async with open_shadow(workspace) as shadow:
            restore = partial(shadow.restore, wanted, with_staging=with_staging)
            restored: Restored = await asyncio.to_thread(restore)
            await settle_all(workspace, shadow)
            return restored


def delete_snapshot(workspace: str, wanted: str, *, is_sure: bool, as_json: bool) -> None:
    """Delete a snapshot, once the person says so. Raises PrsmError."""
    snapshot = with_shadow(workspace, lambda shadow: shadow.find(wanted))
    if not is_sure:
        require_terminal(f"snapshot {snapshot.id} is to be deleted")
        click.confirm(f"delete snapshot {snapshot.id} for good?", abort=True, err=True)
    deleted = with_shadow(workspace, lambda shadow: shadow.delete(snapshot.id))
    if as_json:
        click.echo(json.dumps({"deleted": deleted.id}))
    else:
        say(f"deleted snapshot {deleted.id}")


def pack_snapshots(workspace: str, *, as_json: bool) -> None:
    """Copy all that snapshots need out of the repository. Raises PrsmError."""
    with_shadow(workspace, lambda shadow: shadow.pack())
    if as_json:
        click.echo(json.dumps({"packed": True}))
    else:
        say("the snapshots of this folder need nothing of its repository any more")


def ask(plan: Plan, what: str) -> None:
    """Ask whether a restore is wanted, with what it changes. Raises ConfigError, click.Abort."""
    require_terminal(f"{what!r} is what you want")
    say_plan(plan)
    click.confirm(f"{what}? (prsm undo takes it back)", abort=True, err=True)


def tell(
    restored: Restored, session: str | None = None, *, as_json: bool, is_of_both: bool = False
) -> int:
    """Say what was restored, and where the conversation goes on; return the exit code."""
    plan = restored.plan
    if as_json:
        told = {
            "restored": plan.snapshot.id,
            "safety": restored.safety.id,
            "act": restored.safety.id,
            "session": session,
            **told_plan(plan),
            "notes": list(restored.notes),
            "differs": list(restored.differs),
        }
        click.echo(json.dumps(told))
    else:
        say_plan(plan)
        say(f"restored {plan.snapshot.id}; take it back: prsm undo {restored.safety.id}")
        if session is not None:
            say(f"the conversation goes on in session {session}")
        elif is_of_both:
            say('the conversation was taken back, too: prsm, or prsm run "…", begins anew')
    return _say_besides(restored.notes, restored.differs)


def _say_besides(notes: Iterable[str], differs: Sequence[str]) -> int:
    """Say what else there is to tell of a restore; return the exit code."""
    for note in notes:
        say(f"prsm: note: {escape_exact(note)}", err=True)
    for path in differs[:SHOWN]:
        say(f"prsm: {escape_exact(path)} was changed by another program meanwhile", err=True)
    return 1 if differs else 0


def undo_restore(
    workspace: str, act: Act, *, conversation: bool, is_sure: bool, as_json: bool
) -> int:
    """Take a restore back, once the person says so; return the exit code. Raises PrsmError."""
    owed = run_to_end(_way_back(workspace, act)) if conversation else None
    if not is_sure:
        what, session = "undo the restore", session_after(owed)
        if owed is not None:
            then = "begin anew" if session is None else f"go on with session {session}"
            what = f"undo the undo of a prompt, and {then}"
        ask(with_shadow(workspace, lambda shadow: shadow.plan(act.safety)), what)
    if (asked := run_to_end(_ask_engine(workspace, act, owed))) is not None:
        return _tell_made(asked, as_json=as_json)
    restored = run_to_end(_undo_restore(workspace, act, owed))
    return tell(restored, session_after(owed), as_json=as_json, is_of_both=owed is not None)


async def _way_back(workspace: str, act: Act) -> Owed | None:
    if act.then is None:
        return None
    async with open_ledger(workspace) as store:
        return await way_back(store, act, Ids(time.time))


async def _ask_engine(workspace: str, act: Act, owed: Owed | None) -> UndoReport | None:
    for session in sessions_of(owed):
        async with open_engine(workspace, session) as engine:
            if engine is not None:
                return await engine.changes.undo("act", act.id)
    return None


async def _undo_restore(workspace: str, act: Act, owed: Owed | None) -> Restored:
    state = workspace_paths(workspace).state
    async with AsyncExitStack() as stack:
        require_quiet(await stack.enter_async_context(held(state, Path(workspace))))
        mine = sessions_of(owed)
        for session in mine:  # nobody goes on with them
            stack.enter_context(SessionLock.take(state, session, since=time.time()))
        shadow = await stack.enter_async_context(open_shadow(workspace))
        restored = await asyncio.to_thread(partial(shadow.undo, owed, of=act))
        await end_restore(workspace, shadow, owed, mine, "the files are back")
        return restored


def _tell_made(made: UndoReport, *, as_json: bool) -> int:
    if as_json:
        all_ = to_builtins(made)
        names = ("restored", "session", "changes", "notes", "differs", "act")
        told = {name: all_[name] for name in names}
        click.echo(json.dumps({**told, "safety": made.snapshot, "plan_notes": []}))
    else:
        say(f"files that went back: {made.files}; undo it: prsm undo {made.act}")
        if made.session is not None:
            say(f"the conversation goes on in session {made.session}")
    return _say_besides(made.notes, made.differs)


_OPEN = frozenset({"running", "interrupted"})  # states of a run that can be resumed


class Undoing(Struct, frozen=True, kw_only=True):
    """The command line of `prsm undo --prompt`."""

    workspace: str
    session: str | None
    wanted: str  # a number, or a snapshot
    files: bool  # go back
    conversation: bool  # goes back
    mine: bool  # what is known to be the person's goes back, too
    is_sure: bool
    as_json: bool


def undo_prompt(request: Undoing) -> int:
    """Take a prompt back, once the person says so; return the exit code. Raises PrsmError."""
    install_child_watcher()
    prompt, plan = run_to_end(_look(request))
    if not request.is_sure:
        _ask_prompt(request, prompt, plan)
    with _explained(prompt):
        made, runs = run_to_end(_undo(request, prompt))
    return _tell_taken_back(request, made, runs=runs)


async def _look(request: Undoing) -> tuple[Prompt, Plan | None]:
    async with open_session(request.workspace, request.session) as (store, info):
        prompt = await find_prompt(store, info.session_id, request.wanted)
    folder = Path(prompt.snapshot.folder)
    if repo_identity(Path(request.workspace)).root != folder:
        raise ConfigError(
            f"session {prompt.session} works in another folder: {folder}",
            hint=f"take it back there: prsm undo --prompt --workspace {folder}",
        )
    if request.is_sure or not request.files:
        return prompt, None
    async with open_shadow(request.workspace) as shadow:
        with _explained(prompt):
            spare = await _spare(request, prompt, shadow)
            plan = partial(shadow.plan, prompt.snapshot.snapshot_id, spare)
            return prompt, await asyncio.to_thread(plan)


async def _spare(request: Undoing, prompt: Prompt, shadow: Shadow) -> Spare | None:
    """Return what tells of the files that the person has changed since; None: these go, too."""
    if request.mine:
        return None
    async with open_session(request.workspace, prompt.session) as (store, _):
        return (await known_since(store, prompt, shadow)).spare


@contextmanager
def _explained(prompt: Prompt) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        if error.code != "unknown_snapshot":
            raise
        raise files_gone(prompt) from error


def _ask_prompt(request: Undoing, prompt: Prompt, plan: Plan | None) -> None:
    said = escape_exact(prompt.snapshot.description)
    require_terminal(f"the prompt {said!r} is to be taken back")
    if plan is not None:
        say_plan(plan)
    what = " and ".join(name for name in ("files", "conversation") if getattr(request, name))
    more = f", with {prompt.later} later ones" if prompt.later else ""
    click.confirm(f"take back the prompt {said!r}{more}: {what}?", abort=True, err=True)


async def _undo(request: Undoing, prompt: Prompt) -> tuple[UndoReport, bool]:
    """Take it back; return what was done, and whether the fork has a run that can be resumed."""
    how = {name: getattr(request, name) for name in ("files", "conversation", "mine")}
    made = None
    async with open_engine(request.workspace, prompt.session) as engine:
        if engine is not None:
            made = await engine.changes.undo("prompt", prompt.pinned, **how)
    if made is None:
        state = workspace_paths(request.workspace).state
        with SessionLock.take(state, prompt.session, since=time.time()):  # nobody goes on with it
            if request.files:
                made = await _with_files(request, prompt)
            else:
                owed = prompt.owed(Ids(time.time), with_files=False)
                made = told(prompt, await carry_out_now(request.workspace, owed), None)
    if made.session is None:
        return made, False
    async with open_session(request.workspace, made.session) as (store, info):
        state_now = await store.state(info.session_id)
    return made, state_now.runs[-1].status in _OPEN


async def _with_files(request: Undoing, prompt: Prompt) -> UndoReport:
    state, folder = workspace_paths(request.workspace).state, Path(request.workspace)
    async with held(state, folder, but=prompt.session) as writers:
        require_quiet(writers)
        async with open_shadow(request.workspace) as shadow:
            owed = prompt.owed(Ids(time.time)) if request.conversation else None
            spare = await _spare(request, prompt, shadow)
            name = prompt.snapshot.snapshot_id
            restore = partial(shadow.restore, name, then=owed, spare=spare)
            restored: Restored = await asyncio.to_thread(restore)
            mine, done = {prompt.session}, "the files are as before the prompt"
            session = await end_restore(request.workspace, shadow, owed, mine, done)
            return told(prompt, session, restored)


def _tell_taken_back(request: Undoing, made: UndoReport, *, runs: bool) -> int:
    if request.as_json:
        click.echo(json.dumps(to_builtins(made)))
    else:
        say(f"taken back: {escape_exact(made.prompt or '')}")
        if made.later:
            say(f"with it, prompts that came later: {made.later}")
        for line in _lines(request, made, runs=runs):
            say(line)
    code = _say_besides(made.notes, made.differs)
    for one in made.stays:
        say(f"prsm: {escape_exact(one.path)} stays: {escape_exact(one.why)}", err=True)
    return 1 if made.stays else code


def _lines(request: Undoing, made: UndoReport, *, runs: bool) -> list[str]:
    lines = []
    if request.files:
        if made.spared:
            some = ", ".join(map(escape_exact, made.spared[:SHOWN]))
            more = len(made.spared) - SHOWN
            some += f" and {more} more" if more > 0 else ""
            lines.append(f"left as it is, since it is yours (--mine takes it, too): {some}")
        lines.append(f"files that went back: {made.files}; undo it: prsm undo {made.act}")
    if made.session is not None:
        session = made.session
        how = f"prsm resume {session}" if runs else f'prsm run --continue --session {session} "…"'
        lines.append(f"the conversation goes on in session {session}: {how}")
        lines.append(f"as it was it stays in session {made.origin}")
    elif request.conversation:
        origin = made.origin
        lines.append('nothing was said before it: prsm, or prsm run "…", begins anew')
        lines.append(f'as it was it stays: prsm run --continue --session {origin} "…"')
    return lines
