"""The client of a control server: acts on a session that another process owns."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar, cast

from prsm_core.engine.control.session_lock import find_owner, read_key
from prsm_core.engine.control.wire import ANSWER_LIMIT, decode_answer, encode_request, read_value
from prsm_core.errors import ControlError
from prsm_core.interfaces.app_handle import METHODS
from prsm_core.kit.arguments import takes_checked
from prsm_core.kit.local_socket import short_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from prsm_core.engine.control.session_lock import Owner
    from prsm_core.interfaces.app_handle import AppHandle

CONNECT_SECONDS = 5.0  # for an owner that has only just begun
ANSWER_SECONDS = 60.0
_POLL_SECONDS = 0.02

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


T = TypeVar("T")

if TYPE_CHECKING:
    _Door = AppHandle
else:
    _Door = object


def _asked(name: str) -> Callable[..., Any]:
    """Return the method of AppHandle with this name, as one that asks the owner."""
    method, _ = METHODS[name]
    taken = signature(method)

    @wraps(method)
    async def ask(self: Asking, *args: Any, **more: Any) -> Any:
        given = taken.bind(self, *args, **more).arguments
        del given["self"]
        if "via" in taken.parameters:
            given["via"] = given.get("via") or self._via
        images = given.pop("images", ())
        return read_value(name, await self._ask_with_images(name, images, **given))

    return ask


def asks_owner(door: type[T]) -> type[T]:
    """Give a class the methods of AppHandle that have one answer."""
    for name in METHODS:
        setattr(door, name, _asked(name))
    return door


@takes_checked
@asks_owner
class Asking(_Door):
    """The methods of AppHandle that have one answer, asked of the owner of a session.

    Each raises the error that the owner met, and ControlError when there is no answer.
    """

    def __init__(self, state_dir: Path, session: str, *, via: str) -> None:
        self.session = session
        self._state_dir = state_dir
        self._via = via

    async def ask(self, op: str, **args: Any) -> Any:
        """Return the answer of any operation that has one."""
        raise NotImplementedError

    async def _ask_with_images(self, op: str, images: Sequence[str], **args: Any) -> Any:
        """Ask for what shows images, each a path, which this process reads, or a `data:` URL."""
        async with kept_images(self._state_dir, images) as shown:
            return await self.ask(op, **args, **shown)


class ControlClient(Asking):
    """Asks the owner of a session over one connection, one request at a time."""

    def __init__(
        self, state_dir: Path, session: str, streams: _Streams, *, key: str = "", via: str = ""
    ) -> None:
        super().__init__(state_dir, session, via=via)
        self._reader, self._writer = streams
        self._key = key

    async def ping(self) -> Mapping[str, Any]:
        """Return the owner's session, pid and version of the protocol."""
        return cast("Mapping[str, Any]", await self.ask("ping"))

    async def ask(self, op: str, **args: Any) -> Any:
        """Return the answer of any operation that has one."""
        request = encode_request(op, args, self._key)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                self._writer.write(request)
                await self._writer.drain()
                line = await self._reader.readuntil(b"\n")
        except TimeoutError as error:
            raise silence(self.session, f"did not answer within {ANSWER_SECONDS:.0f} s") from error
        except asyncio.LimitOverrunError as error:
            raise ControlError(
                f"the answer of session {self.session} has more than {ANSWER_LIMIT} bytes",
                hint="ask for less, such as a page of fewer entries",
                code="line_too_long",
            ) from error
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise silence(self.session, "ended before it answered") from error
        return decode_answer(line)

    async def aclose(self) -> None:
        """Close the connection."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


@asynccontextmanager
async def kept_images(
    state_dir: Path, images: Sequence[str]
) -> AsyncIterator[Mapping[str, Sequence[str]]]:
    """Yield what of a request tells its images: they are read and kept here, by the peer.

    So the owner of the session reads no path that a peer names, and what goes over the socket is
    short. This is left with the owner's answer: until then none of them is removed. Raises
    ConfigError for one that is unfit.
    """
    if not images:
        yield {}
        return
    from prsm_core.workspace.images import (  # few prompts have any
        IMAGES,
        holding_images,
        keep_images,
    )

    folder = state_dir / IMAGES
    async with holding_images(folder):
        yield {"images": await asyncio.to_thread(keep_images, images, folder)}


def silence(session: str, what: str) -> ControlError:
    """Return the error of an owner that tells nothing."""
    return ControlError(
        f"the owner of session {session} {what}",
        hint=f"`prsm tree {session}` shows what became of it",
        code="no_answer",
    )


@asynccontextmanager
async def open_control(
    state_dir: Path, session: str, *, via: str = ""
) -> AsyncIterator[ControlClient]:
    """Connect to the owner of a session; `via` is told as where a person's answers come from.

    The owner's key is shown to it, so that a person may do more than look.

    Raises:
        ControlError: nobody owns it (code `no_owner`), or its owner cannot be reached.
    """
    streams = await connect(state_dir, session)
    key = read_key(state_dir, session)
    client = ControlClient(state_dir, session, streams, key=key, via=via)  # type: ignore[abstract]
    try:
        yield client
    finally:
        await client.aclose()


async def connect(state_dir: Path, session: str, *, buffered: int = ANSWER_LIMIT) -> _Streams:
    """Return the streams of a new connection to the owner of a session; see open_control.

    What came and was not read yet takes little more than twice `buffered` bytes.
    """
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        owner = find_owner(state_dir, session)
        if owner is None:
            raise ControlError(
                f"nothing runs in session {session}",
                hint=f"`prsm tree {session}` shows what became of it",
                code="no_owner",
            )
        try:
            return await _open(owner, buffered)
        except (FileNotFoundError, ConnectionError) as error:
            if time.monotonic() > deadline:
                raise ControlError(
                    f"process {owner.process.pid}, which owns session {session}, does not listen",
                    hint="end that process if it hangs",
                    code="no_answer",
                ) from error
        await asyncio.sleep(_POLL_SECONDS)


async def _open(owner: Owner, buffered: int) -> _Streams:
    with short_name(owner.socket) as name:
        return await asyncio.open_unix_connection(name, limit=buffered)
