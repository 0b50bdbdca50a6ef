"""A script's place, kept on disk: how far a thread is, so that another engine goes on from there.

A thread is a file. It is replaced as a whole, and before anybody is told of what it says next:

    prompt heard     before anything is said to it
    response chosen  before the first event of it, with the ids and arguments of its calls
    call answered    before its end is told, and before the next response is chosen

So an engine can be killed at any point, and the file lacks what was said or answered between two
of these only, which is what the ledger may have and carries (`SessionRequest.carried`):

- The prompt is in the ledger, and not in the file: it is not in `taken`, and the engine tells it.
- The prompt is in the file, and no response: one is chosen for it.
- The response is in the file, and the ledger has not heard of it, or not of all its calls: what it
  answers is carried, and it is said again, with the same ids. Where the ledger has heard of it, by
  a call of it, or since what it answers is carried no more, it is not said again, but calls that
  the ledger never saw are made, by their ids.
- A call's answer is in the ledger, and not in the file: it is carried, and put into the thread. A
  command has its end in the file before the ledger can: one that nobody saw the end of may have
  run, and is not run again.
- A call's answer is in the file: it is in `taken`, and not told.

Secrets that the engine knows are taken out: a step that copies one copies the mark in its stead.

A file that is torn or missing is a thread that is lost: its conversation is rebuilt. The thread is
safe from the death of the engine, not from that of the machine: nothing is flushed to the disk.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

import msgspec

from prsm_core import ProviderNotAvailableError
from prsm_core.kit import make_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from prsm_core import Image, ToolOutcome


class LanePlace(msgspec.Struct, kw_only=True):
    """How far a lane was played.

    Attributes:
        errors: Times the current step's error was given.
        was_late: It was asked after its last step.
        outputs: The latest, by call id or tool.
    """

    lane: str
    step: int = 0
    errors: int = 0
    was_late: bool = False
    outputs: dict[str, str] = msgspec.field(default_factory=dict)

    def advance(self) -> None:
        """Go to the next step."""
        self.step += 1
        self.errors = 0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a call; `text` is what later steps can copy from."""

    text: str
    status: str = "completed"  # completed | failed | denied
    result: str | None = None  # of a native tool, for people
    reason: str | None = None  # why it is not completed
    ends_turn: bool = False
    exit_code: int | None = None  # of a command


def given(answer: ToolOutcome) -> Outcome:
    """Return the answer to an orchestration call, with words for the images that it shows."""
    if answer.is_error:
        return Outcome(text=answer.text, status="failed", reason=answer.text)
    text = "\n".join((answer.text, *image_words(answer.images)))
    return Outcome(text=text, ends_turn=answer.ends_turn)


def image_words(images: Iterable[Image]) -> Iterator[str]:
    """Yield what stands for images that are shown."""
    return (f"[image {one.name}: {one.media_type}]" for one in images)


class KeptResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The newest response: a step of the thread's lane, as its templates were filled in.

    `answers` are the ids of the prompts and calls that it is an answer to.
    """

    lane: str
    step: int
    number: int
    say: str | None
    calls: tuple[tuple[str, dict[str, Any]], ...]  # ids and arguments
    answers: tuple[str, ...]
    outcomes: dict[str, Outcome]  # by id of the call


class KeptThread(msgspec.Struct, kw_only=True):
    """All that a thread is.

    Attributes:
        calls: Numbers given to calls so far.
        place: None: nothing was asked yet.
        texts: All of them, in order of time.
        outputs: Call id, tool and text of each call that was answered.
        unanswered: Ids of prompts and calls that no response answers yet.
        response: The newest one, with what became of its calls.
    """

    calls: int = 0
    replies: int = 0
    place: LanePlace | None = None
    texts: list[str] = msgspec.field(default_factory=list)
    prompts: list[str] = msgspec.field(default_factory=list)
    prompt_ids: list[str] = msgspec.field(default_factory=list)
    outputs: list[tuple[str, str, str]] = msgspec.field(default_factory=list)
    unanswered: list[str] = msgspec.field(default_factory=list)
    response: KeptResponse | None = None


class Shelf:
    """The files of a provider's threads: a folder for each play, a file for each thread of it.

    A play is what one engine began, and others went on with. Its threads share its lanes.
    """

    def __init__(self, folder: Path, redact: Callable[[Any], Any]) -> None:
        self._folder = folder
        self._redact = redact
        self._play: str | None = None
        self._known: set[str] = set()

    def new_token(self) -> str:
        """Return the token of a thread that is about to begin."""
        self._play = self._play or secrets.token_hex(8)
        self._known.add(self._play)
        return f"{self._play}/{secrets.token_hex(8)}"

    def join(self, token: str) -> Iterator[KeptThread]:
        """Yield the threads of a token's play, unless it has been joined before."""
        play = token.partition("/")[0]
        if play in self._known or not _is_word(play):
            return
        self._known.add(play)
        self._play = self._play or play
        yield from filter(None, map(_read, sorted((self._folder / play).glob("*.json"))))

    def read(self, token: str) -> KeptThread:
        """Return a thread; raise ProviderNotAvailableError, `resume_failed`, where it is lost."""
        kept = _read(self._file(token)) if all(map(_is_word, token.split("/"))) else None
        if kept is None:
            raise ProviderNotAvailableError(
                f"script: there is no thread {token}, or its file is torn",
                hint="Its conversation can be rebuilt.",
                code="resume_failed",
            )
        return kept

    def write(self, token: str, kept: KeptThread) -> None:
        """Replace a thread's file without any await. Raises ProviderNotAvailableError."""
        file = self._file(token)
        beside = file.with_suffix(".new")
        try:
            make_private(file.parent)
            beside.write_text(json.dumps(self._redact(msgspec.to_builtins(kept))), encoding="ascii")
            beside.replace(file)
        except OSError as error:
            raise ProviderNotAvailableError(
                f"script: {file} cannot be written: {error.strerror or error}",
                hint="Look at the disk and the rights of the folder.",
            ) from error

    def _file(self, token: str) -> Path:
        return self._folder / f"{token}.json"


def _is_word(name: str) -> bool:
    return name.isascii() and name.isalnum()


def _read(file: Path) -> KeptThread | None:
    try:
        told: Mapping[str, Any] = json.loads(file.read_bytes())
        return msgspec.convert(told, KeptThread)
    except (OSError, ValueError, RecursionError):
        return None
