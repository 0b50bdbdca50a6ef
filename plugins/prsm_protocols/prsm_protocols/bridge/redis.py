"""The bridge by Redis: one reader of all agents' streams, and one step for each answer.

The ledger is the truth, Redis a transport and a live copy. Whatever becomes of the server, a
request has its effect at most once: the call's answer is in the ledger before it is here, and a
client that gets none makes its request again with the same id. A server that comes back empty is
given users, streams and states again.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import asynccontextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

from prsm_core import OrchestrationError, ProviderNotAvailableError
from prsm_protocols.bridge.wire import read_request, refusal, write_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from redis.asyncio import Redis

    from prsm_core import BackgroundTask, ProviderServices
    from prsm_protocols.bridge.desk import Desk

BLOCK_MS = 500  # a new agent's stream is read after so long; redis-py itself gives up after 5 s
BATCH = 64  # requests that are read at once
OPEN_SECONDS = 15.0  # for which a server that is away is waited for
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds until a server that is away is tried again
OLDEST = (6, 2)
_LASTING = frozenset({"state", "send", "next", "measure", "complete"})  # whose answers are kept

GROUP = "engine"
KEPT_SECONDS = 3600  # an answer, for a request that is made again
REPLY_SECONDS = 120  # an answer that nobody has fetched

_TELL = """\
local function tell(state, channel, version, text)
  local known = tonumber(redis.call('HGET', state, 'version') or '-1')
  if tonumber(version) <= known then return end
  redis.call('HSET', state, 'version', version, 'state', text)
  redis.call('PUBLISH', channel, text)
end
"""
_GIVE = """\
local function give(reply, seconds, answer, requests, group, entry)
  redis.call('DEL', reply)
  redis.call('RPUSH', reply, answer)
  redis.call('EXPIRE', reply, seconds)
  redis.call('XACK', requests, group, entry)
  redis.call('XDEL', requests, entry)
end
"""

TELL = f"{_TELL}tell(KEYS[1], ARGV[3], ARGV[1], ARGV[2])"
"""Set the state of an agent if it is newer, and tell of it. KEYS: state. ARGV: version, state,
channel."""

REFUSE = f"{_GIVE}give(KEYS[1], ARGV[2], ARGV[1], KEYS[2], ARGV[4], ARGV[3])"
"""Give an answer that is kept for no repeat. KEYS: reply list, requests. ARGV: answer, seconds,
entry, group."""

SETTLE = f"""\
{_TELL}{_GIVE}
local answer = redis.call('GET', KEYS[2])
if not answer then
  answer = ARGV[3]
  if ARGV[1] ~= '' then tell(KEYS[1], ARGV[6], ARGV[1], ARGV[2]) end
  redis.call('SET', KEYS[2], answer, 'EX', ARGV[4])
end
give(KEYS[3], ARGV[5], answer, KEYS[4], ARGV[8], ARGV[7])
"""
"""Set the state if it is newer, tell of it, and give the answer: all, or nothing of it.

KEYS: state, answer of the id, reply list, requests. ARGV: version or '', state, answer, seconds the
answer is kept, seconds the reply is, channel, entry, group. An answer that the id had before stays,
and then nothing else is set.
"""


class Keys:
    """Where an agent's things lie; the braces keep them in one slot of a cluster."""

    def __init__(self, agent_id: str) -> None:
        self.base = f"prsm:{{{agent_id}}}"
        # A stream: each entry has a request in its field `r`.
        self.requests = f"{self.base}:requests"
        # A hash: `version`, a number that grows, and `state`, JSON.
        self.state = f"{self.base}:state"
        # Where each new state is published.
        self.channel = f"{self.base}:events"

    def reply(self, request_id: str) -> str:
        """A list: the answer to a request, for who asked to fetch."""
        return f"{self.base}:reply:{request_id}"

    def answer(self, request_id: str) -> str:
        """A text: the answer that a request has had."""
        return f"{self.base}:answer:{request_id}"


class Place:
    """One agent at Redis: its desk, its keys, its user, and its state as last told."""

    def __init__(self, desk: Desk, count: Callable[[], int]) -> None:
        self.desk = desk
        self.keys = Keys(desk.agent_id)
        self.user = f"prsm-{desk.agent_id}"
        self.password = secrets.token_hex(16)
        self.version = 0
        self.state = ""  # JSON, blank before the first
        self.running: set[bytes] = set()  # entries that are being answered
        self._count = count

    def move(self, here: Mapping[str, Any]) -> None:
        """Take note of a state; its number is higher than any, also of an earlier engine."""
        self.version, self.state = self._count(), json.dumps(dict(here), ensure_ascii=False)

    @property
    def rights(self) -> tuple[str, ...]:
        """What the agent's user may do: ask, fetch its answers, hear of its states."""
        keys = self.keys
        return (
            *("reset", "on", f">{self.password}"),
            *(f"~{keys.requests}", f"~{keys.reply('*')}", "resetchannels", f"&{keys.channel}"),
            *("-@all", "+xadd", "+blpop", "+subscribe", "+unsubscribe", "+ping", "+auth", "+hello"),
        )


class RedisBridge:
    """Owns the connections to one server; it reads for all agents of the provider."""

    def __init__(self, url: str, services: ProviderServices) -> None:
        self._url = url
        self._services = services
        self._places: dict[str, Place] = {}
        self._redis: Redis | None = None
        self._reader: BackgroundTask | None = None
        self._opening = asyncio.Lock()
        self._changed = asyncio.Event()  # there is an agent to read for
        self._serving: set[BackgroundTask] = set()
        self._is_behind = False  # an answer was not given: what is pending is read again

    @asynccontextmanager
    async def open_place(self, desk: Desk, count: Callable[[], int]) -> AsyncIterator[Place]:
        """Answer an agent's requests until left.

        `count` returns a number that is higher each time, also after a restart of the engine.
        Raises ProviderNotAvailableError for a server that cannot be reached, or would lose things.
        """
        require_client()
        place = Place(desk, count)
        await self._reached(self._open)
        await self._reached(lambda: self._furnish(place))
        self._places[desk.agent_id] = place
        self._changed.set()
        try:
            yield place
        finally:
            del self._places[desk.agent_id]
            if not self._places:
                self._changed.clear()
            await self._clear(place)

    async def _reached(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do something that needs the server; it may be starting, and loads as long as it takes."""
        from redis.exceptions import BusyLoadingError

        clock, pause = self._services.clock, FIRST_PAUSE
        until = clock.now() + OPEN_SECONDS
        while True:
            try:
                await act()
            except BusyLoadingError:
                until = clock.now() + OPEN_SECONDS
            except _errors() as error:
                if clock.now() + pause > until:
                    raise ProviderNotAvailableError(
                        f"program: Redis cannot be reached: {error}",
                        hint="start the server, or set `providers.program.redis` right",
                    ) from error
            else:
                return
            await clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def url_of(self, place: Place) -> str:
        """Return the URL by which the agent's program reaches the server."""
        parts = urlsplit(self._url)
        where = parts.netloc.rpartition("@")[2]
        user = f"{quote(place.user)}:{place.password}"
        return urlunsplit((parts.scheme, f"{user}@{where}", parts.path, "", ""))

    async def tell(self, place: Place) -> None:
        """Tell the agent's state as it is; where the server is away it is told once it is back."""
        if place.state and self._redis is not None:
            try:
                keys, told = place.keys, (place.version, place.state, place.keys.channel)
                await self._redis.eval(TELL, 1, keys.state, *map(str, told))
            except _errors():
                return  # the reader sees it, too, and tells every state once it is connected

    async def aclose(self) -> None:
        """Read and answer no more."""
        tasks = [*self._serving, *(() if self._reader is None else (self._reader,))]
        for task in tasks:
            task.cancel()
        while not all(task.done() for task in tasks):  # else one might connect once more
            await self._services.clock.sleep(0)
        if self._redis is not None:
            await self._redis.aclose()

    async def _open(self) -> None:
        async with self._opening:
            if self._redis is not None:
                return
            redis = _client(self._url)
            try:
                await check_server(redis)
            except BaseException:
                await redis.aclose()
                raise
            self._redis = redis
            self._reader = self._services.start_soon(self._read, name="requests at Redis")

    async def _furnish(self, place: Place) -> None:
        """Give an agent its user, its stream and its state; what is there stays."""
        from redis.exceptions import ResponseError

        redis: Any = self._client
        keys = place.keys
        await redis.execute_command("ACL", "SETUSER", place.user, *place.rights)
        try:
            await redis.xgroup_create(keys.requests, GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
        await self.tell(place)

    @property
    def _client(self) -> Redis:
        if self._redis is None:
            raise RuntimeError("the bridge is not open")
        return self._redis

    async def _clear(self, place: Place) -> None:
        """Take the agent's user and stream away; where the server is away nothing is there."""
        redis: Any = self._client
        try:
            await redis.execute_command("ACL", "DELUSER", place.user)
            await redis.delete(place.keys.requests)
        except _errors():
            return  # its password is good for nothing: no token is any more

    async def _read(self) -> None:
        """Read requests for as long as the provider lives, over any end of the server."""
        pause = FIRST_PAUSE
        while True:
            try:
                await self._changed.wait()
                await self._read_old()
                pause = FIRST_PAUSE
                while self._places and not self._is_behind:
                    await self._read_from(">", BLOCK_MS)
            except _errors():
                await self._services.clock.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _read_old(self) -> None:
        """Be as a new connection has to be: everything furnished, what was begun taken up."""
        self._is_behind = False
        for place in tuple(self._places.values()):
            await self._furnish(place)
        await self._read_from("0", None)

    async def _read_from(self, start: str, block: int | None) -> None:
        places = {place.keys.requests.encode(): place for place in self._places.values()}
        streams: dict[Any, Any] = dict.fromkeys(places, start)
        found = await self._client.xreadgroup(GROUP, GROUP, streams, count=BATCH, block=block)
        for stream, entries in _pairs(found):
            for entry, fields in entries:
                place = places[stream]
                if entry not in place.running:
                    place.running.add(entry)
                    asked = (place, entry, (fields or {}).get(b"r", b""))
                    self._serving = {task for task in self._serving if not task.done()}
                    serving = self._services.start_soon(self._serve, *asked, name="aism at Redis")
                    self._serving.add(serving)

    async def _serve(self, place: Place, entry: bytes, line: bytes) -> None:
        """Answer one request; where the server goes meanwhile it is made again, or is moot."""
        try:
            await self._answer(place, entry, line)
        except _errors():
            self._is_behind = True  # the answer is kept by its id, and the entry read again
        finally:
            place.running.discard(entry)

    async def _answer(self, place: Place, entry: bytes, line: bytes) -> None:
        redis, keys = self._client, place.keys
        try:
            request = read_request(line)
        except OrchestrationError:
            await redis.xack(keys.requests, GROUP, entry)  # there is no id to answer to
            await redis.xdel(keys.requests, entry)
            return
        reply = keys.reply(request.id)

        async def give(text: bytes) -> None:
            given = (text, str(REPLY_SECONDS), entry, GROUP)
            await redis.eval(REFUSE, 2, reply, keys.requests, *given)

        try:
            place.desk.check(request)
        except OrchestrationError as error:
            await give(write_answer(refusal(request.id, error)))
            return
        known: Any = await redis.get(keys.answer(request.id))
        if known is not None:
            await give(known)
            return
        version = place.version
        answer = await place.desk.answer(request)
        text = write_answer(answer)
        if request.do not in _LASTING or (answer.error or {}).get("code") == "rate_limited":
            await give(text)
            return
        moved = (str(place.version), place.state) if place.version != version else ("", "")
        await redis.eval(
            SETTLE,
            4,
            *(keys.state, keys.answer(request.id), reply, keys.requests),
            *(*moved, text, str(KEPT_SECONDS), str(REPLY_SECONDS)),
            *(keys.channel, entry, GROUP),
        )


def require_client() -> None:
    """Raise ProviderNotAvailableError where the package redis is not installed."""
    try:
        import redis.asyncio  # noqa: F401 - whether it is there
    except ImportError as error:
        raise ProviderNotAvailableError(
            "program: the package redis is missing",
            hint="pip install 'prsm-protocols[redis]', or leave `providers.program.redis` out",
        ) from error


def _client(url: str) -> Redis:
    from redis.asyncio import Redis

    return Redis.from_url(url, socket_timeout=5.0, socket_connect_timeout=2.0)


def _errors() -> tuple[type[Exception], ...]:
    """What a server that is away, comes back, or has forgotten raises."""
    from redis.exceptions import RedisError

    return (RedisError, OSError)


def _pairs(found: Any) -> list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes] | None]]]]:
    """Return what was read, by stream: RESP 2 gives lists, RESP 3 a mapping."""
    if isinstance(found, dict):
        return [(stream, [*chain(*parts)]) for stream, parts in found.items()]
    return found or []


async def check_server(redis: Redis) -> None:
    """Raise ProviderNotAvailableError for a server that is too old, or would lose things.

    Raises BusyLoadingError for one that has not loaded yet what it keeps: until then it says that
    it keeps no append-only file.
    """
    from redis.exceptions import BusyLoadingError

    told = await redis.info()
    if told.get("loading"):
        raise BusyLoadingError("it loads what it keeps")
    version = tuple(int(part) for part in str(told["redis_version"]).split(".")[:2])
    if version < OLDEST:
        raise ProviderNotAvailableError(
            f"program: this Redis is of version {told['redis_version']}",
            hint="use Redis 6.2 or later, or Valkey",
        )
    if not told.get("aof_enabled"):
        raise ProviderNotAvailableError(
            "program: this Redis keeps no append-only file, so a crash of it loses requests",
            hint="redis-cli config set appendonly yes; and the same in its configuration file",
        )
    policy = told.get("maxmemory_policy")
    if policy != "noeviction":
        raise ProviderNotAvailableError(
            f"program: this Redis evicts keys when its memory is full ({policy})",
            hint="redis-cli config set maxmemory-policy noeviction; and in its configuration file",
        )
