"""Tells of what became of files which part the edits of calls explain; the parts are stored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from prsm_core.workspace.changes.attribution import could_make
from prsm_core.workspace.changes.records import FILE, LINK, Entry
from prsm_core.workspace.changes.splitting import Part, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prsm_core.workspace.changes.records import Found, WritingCall
    from prsm_core.workspace.changes.splitting import Edit
    from prsm_core.workspace.shadow.git import GitDir

_LARGEST = 4 * 2**20  # bytes of a text that is looked into


class _Maker(NamedTuple):
    """A call that may have made a change, and what it says it did there."""

    call: WritingCall
    edit: Edit


class _Step(NamedTuple):
    """What became of a text, and the calls that explain it."""

    before: bytes | None
    after: bytes | None
    by: tuple[WritingCall, ...] = ()


def explained(git: GitDir, found: Sequence[Found], calls: Sequence[WritingCall]) -> list[Found]:
    """Return changes, each in as many as it has parts of different origin. Raises GitFailedError.

    What no edit explains stays as it is.
    """
    makers = [_makers(one, calls) if _is_text(one) else [] for one in found]
    asked = [one for one, mine in zip(found, makers, strict=True) if mine]
    if not asked:
        return list(found)
    sources = _sources(found, makers)
    texts = _texts(git, [*asked, *sources.values()])
    parts: list[Found] = []
    for one, mine in zip(found, makers, strict=True):
        if not mine or not {one.before, one.after} <= texts.keys():
            parts.append(one)
            continue
        moved = {path: texts.get(source.before) for path, source in sources.items()}
        steps = _explain(texts[one.before], texts[one.after], mine, moved)
        parts += _parts(git, one, steps)
    return parts


def _makers(one: Found, calls: Sequence[WritingCall]) -> list[_Maker]:
    """Return the calls that may have made a change and say what they did there, oldest first."""
    able = sorted((call for call in calls if could_make(call, one)), key=lambda call: call.began)
    return [_Maker(call, edit) for call in able for edit in call.edits if edit.path == one.path]


def _is_text(one: Found) -> bool:
    return all(
        entry is None or (entry.mode != LINK and entry.blob) for entry in (one.before, one.after)
    )


def _sources(found: Sequence[Found], makers: Sequence[Sequence[_Maker]]) -> dict[str, Found]:
    """Return the changes by which files went that are moved, by their paths."""
    wanted = {maker.edit.source for mine in makers for maker in mine}
    return {one.path: one for one in found if one.path in wanted and _is_text(one)}


def _texts(git: GitDir, found: Iterable[Found]) -> dict[Entry | None, bytes | None]:
    """Return what files held, but for those that are too large."""
    entries = {entry for one in found for entry in (one.before, one.after) if entry is not None}
    asked = "".join(f"{blob}\n" for blob in sorted({entry.blob for entry in entries}))
    sizes = git.run("cat-file", "--batch-check", stdin=asked.encode("ascii")).split(b"\n")
    fit = [line.split(b" ")[0] for line in sizes if _is_fit(line)]
    told = git.run("cat-file", "--batch", stdin=b"".join(blob + b"\n" for blob in fit))
    blobs: dict[str, bytes] = {}
    place = 0
    for blob in fit:
        end = told.index(b"\n", place) + 1
        size = int(told[place:end].split(b" ")[2])
        blobs[blob.decode("ascii")] = told[end : end + size]
        place = end + size + 1
    texts: dict[Entry | None, bytes | None] = {None: None}
    texts.update((entry, blobs[entry.blob]) for entry in entries if entry.blob in blobs)
    return texts


def _is_fit(line: bytes) -> bool:
    words = line.split(b" ")
    return len(words) == 3 and words[2].isdigit() and int(words[2]) <= _LARGEST


def _explain(
    before: bytes | None,
    after: bytes | None,
    makers: Sequence[_Maker],
    moved: Mapping[str, bytes | None],
) -> list[_Step]:
    """Return what became of a text, step by step; calls that explain all of it share it."""
    whole = _Step(before, after)
    alone: dict[int, WritingCall] = {}
    for call in {maker.call.began: maker.call for maker in makers}.values():
        own = [maker for maker in makers if maker.call is call]
        if all(step.by for step in _steps(whole, own, moved)):
            alone[call.began] = call
    if alone:
        return [whole._replace(by=tuple(reversed(alone.values())))]
    return _steps(whole, makers, moved)


def _steps(
    whole: _Step, makers: Sequence[_Maker], moved: Mapping[str, bytes | None]
) -> list[_Step]:
    steps = [whole]
    for maker in makers:
        steps = [
            new for step in steps for new in ([step] if step.by else _split(step, maker, moved))
        ]
    return steps


def _split(step: _Step, maker: _Maker, moved: Mapping[str, bytes | None]) -> list[_Step]:
    before, edit = step.before, maker.edit
    if before is None and edit.source is not None:
        before = moved.get(edit.source)
    parts = split(before, step.after, edit) or [Part(step.after, is_explained=True)]
    steps: list[_Step] = []
    text = step.before
    for part in parts:
        steps.append(_Step(text, part.text, (maker.call,) if part.is_explained else ()))
        text = part.text
    return steps


def _parts(git: GitDir, one: Found, steps: Sequence[_Step]) -> list[Found]:
    """Return the steps of a change as changes; only the last can have another mode than before."""
    mode = FILE if one.before is None else one.before.mode
    parts: list[Found] = []
    old = one.before
    for number, step in enumerate(steps, 1):
        if number == len(steps):
            new = one.after if one.after is None or not step.by else replace(one.after, mode=mode)
        else:
            new = None if step.after is None else Entry(mode, _stored(git, step.after))
        parts.append(replace(one, before=old, after=new, by=step.by, written_at=None))
        old = new
    if old != one.after:
        parts.append(replace(one, before=old, by=(), written_at=None))
    last = replace(parts[-1], written_at=one.written_at)
    return [part for part in (*parts[:-1], last) if part.before != part.after]


def _stored(git: GitDir, text: bytes) -> str:
    said = git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=text, alone=True)
    return said.decode("ascii").strip()
