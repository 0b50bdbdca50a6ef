"""The file in which Gemini keeps a conversation: what is in it, and mending it for a resume.

One JSON object a line: a header, messages (the last one with an id counts), and `$set`s, which may
replace all messages. Gemini writes the results of a call twice, into the call and as a message of
its own, and reads both back: without mending each call would have two answers. A resume in a later
minute begins a second file, which stays empty, before it goes on with the first; there it writes
the results of all calls made together into each of them.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

Json = Mapping[str, Any]

_CONTEXT = "<session_context>"
_COPY = ".kept"


class Chat:
    """The conversation with one session id, as it is on disk."""

    def __init__(self, vendor: Path, session_id: str) -> None:
        self._vendor = vendor
        self._session_id = session_id

    async def messages(self) -> list[Json]:
        """Return the messages, without those Gemini put there itself; empty without a file."""
        return await asyncio.to_thread(self._messages)

    async def mend(self) -> None:
        """Make the file fit for a resume; one that nobody understands is left.

        Answers that are there a second time are taken away, as are the empty files of resumes.
        Gemini begins a resume by writing an empty conversation into the file, so a copy is kept
        in case it dies just then.
        """
        await asyncio.to_thread(self._mend)

    def _messages(self) -> list[Json]:
        path = self._path()
        return _spoken(_current(path)[1]) if path else []

    def _mend(self) -> None:
        if (path := self._path()) is None:
            return
        records, current = _current(path)
        messages = [_own_results(message) for message in current]
        answered = {call for message in messages for call in _answered(message)}
        mended = [one for message in messages if (one := _without(message, answered)) is not None]
        if not mended or any("$rewindTo" in record for record in records):
            return
        whole = [_header(records), *mended]
        _write(path.with_suffix(_COPY), whole)
        if mended != _effective(records):
            _write(path, whole)
        for other in self._files():
            if other != path and _is_empty(other):
                other.unlink()

    def _path(self) -> Path | None:
        """Return the file of the conversation: the latest in which anything is said."""
        files = self._files()
        said = (path for path in files if _spoken(_current(path)[1]))
        return next(said, files[0] if files else None)

    def _files(self) -> list[Path]:
        """Return the files, latest first; a name holds the minute it was begun in, and the id."""
        name = f"session-*-{self._session_id[:8]}.jsonl"
        return sorted(self._vendor.glob(f"tmp/*/chats/{name}"), reverse=True)


def _current(path: Path) -> tuple[list[Json], list[Json]]:
    """Return the records of a file, and its messages: of the copy where they are lost."""
    records = _read(path)
    messages = _effective(records)
    if _spoken(messages):
        return records, messages
    return records, _effective(_read(path.with_suffix(_COPY))) or messages


def _is_empty(path: Path) -> bool:
    """Whether a file was understood and says nothing."""
    records, messages = _current(path)
    return bool(records) and not _spoken(messages)


def _read(path: Path) -> list[Json]:
    """Return the records of a file, none if one of them is not understood.

    The last line may be cut off: its writer was killed. What else than a line feed ends lines of
    text, as U+2028 does, stands in JSON as it is.
    """
    try:
        *lines, last = [line for line in path.read_bytes().split(b"\n") if line.strip()]
        records = [json.loads(line) for line in lines]
    except (OSError, ValueError, RecursionError):
        return []
    with suppress(ValueError, RecursionError):
        records.append(json.loads(last))
    return records if all(map(_is_understood, records)) else []


def _is_understood(record: object) -> bool:
    """Return whether this is an object whose messages, and their calls, are objects."""
    if not isinstance(record, dict):
        return False
    setting = record.get("$set")
    replaced = setting.get("messages") if isinstance(setting, dict) else None
    messages = [record, *(replaced if isinstance(replaced, list) else ())]
    return all(isinstance(each, dict) and _are_objects(each.get("toolCalls")) for each in messages)


def _are_objects(calls: object) -> bool:
    return not calls or (isinstance(calls, list) and all(isinstance(call, dict) for call in calls))


def _write(path: Path, records: Iterable[Json]) -> None:
    """Replace a file in one step, for its owner alone."""
    beside = path.with_suffix(".new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        # In ASCII: half a character, which a text may hold, is no UTF-8.
        file.writelines(json.dumps(record) + "\n" for record in records)
    beside.replace(path)


def _spoken(messages: Iterable[Json]) -> list[Json]:
    """Return messages without those that Gemini put there itself."""
    return [message for message in messages if not text_of(message).startswith(_CONTEXT)]


def text_of(message: Json) -> str:
    """Return the text of a message, without what is no text."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(str(part["text"]) for part in _parts(message) if "text" in part)


def _parts(message: Json) -> list[Json]:
    content = message.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _effective(records: Iterable[Json]) -> list[Json]:
    """Return the messages that a file stands for, in order."""
    found: dict[str, Json] = {}
    for record in records:
        setting = record.get("$set")
        replaced = setting.get("messages") if isinstance(setting, dict) else None
        if isinstance(replaced, list):
            found = {str(message.get("id")): message for message in replaced}
        elif "type" in record:
            found[str(record.get("id"))] = record
    return list(found.values())


def _header(records: Iterable[Json]) -> Json:
    """Return what a file says of the conversation as a whole."""
    header: dict[str, Any] = {}
    for record in records:
        setting = record.get("$set")
        if isinstance(setting, dict):
            header |= {key: value for key, value in setting.items() if key != "messages"}
        elif "type" not in record:
            header = {**record, **header}  # what was said first counts, what was set counts more
    return header


def _answered(message: Json) -> Iterator[str]:
    """Yield the ids of the calls that hold their own results."""
    for call in message.get("toolCalls") or ():
        if call.get("result"):
            yield str(call.get("id"))


def _own_results(message: Json) -> Json:
    """Return a message whose calls hold no results of other calls."""
    calls = message.get("toolCalls")
    return {**message, "toolCalls": [_with_own(call) for call in calls]} if calls else message


def _with_own(call: Json) -> Json:
    """Return a call with what answers it: from each answer of its own on, up to another's."""
    result = call.get("result")
    parts = result if isinstance(result, list) else []
    own, is_own = [], True
    for part in parts:
        if isinstance(part, dict) and (answers := _answers(part)) is not None:
            is_own = answers == call.get("id")
        if is_own:
            own.append(part)
    return {**call, "result": own} if own and own != parts else call


def _without(message: Json, answered: set[str]) -> Json | None:
    """Return a message without answers that are in their calls too; None if nothing is left."""
    parts = _parts(message)
    left = [part for part in parts if _answers(part) not in answered]
    if message.get("type") != "user" or left == parts:
        return message
    return {**message, "content": left} if left else None


def _answers(part: Json) -> str | None:
    """Return the id of the call that a part answers."""
    answer = part.get("functionResponse")
    return str(answer.get("id")) if isinstance(answer, dict) else None
