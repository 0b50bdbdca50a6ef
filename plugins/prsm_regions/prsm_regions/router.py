"""The router: what an agent asks of another's region, answered as cheaply as can be.

An answer comes from the cache, else from the oracle at no token, the owner's worktree first, else
from the region's owner, who is asked once for a signature only. Who asks is never asked. What
nobody knows is `not found`, with names that are near.
"""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING, Protocol

import msgspec

from prsm_core import PrsmError
from prsm_core.kit import deadline
from prsm_regions.ground import is_below, plain
from prsm_regions.symbols.answers import render
from prsm_regions.symbols.definitions import MAX_TEXT, cut
from prsm_regions.symbols.files import look
from prsm_regions.symbols.grammars import without_suffix

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prsm_core import ProviderServices
    from prsm_regions.symbols.answers import Found
    from prsm_regions.symbols.files import Stamp
    from prsm_regions.symbols.oracle import Oracle

    Stamps = dict[tuple[str, str], Stamp | None]

OWNER_TOKENS = 30_000  # that one answer of an owner may take, its conversation read again with it
_MAX_CONTEXT = 500  # characters of what an asker says beside the name

_NAME = r"[A-Za-z_$][\w$]*"
_DOTTED = rf"{_NAME}(?:(?:\.|::|#){_NAME})*"
_CODE = re.compile(rf"`({_DOTTED})(?:\(.*?\))?`")
_WORD = re.compile(rf"(?<![\w/.@-])({_DOTTED})(\(\))?(?![\w/@]|\.\w)")
_IMPORTED = re.compile(
    rf"\bimport\s+(?:type\s+)?\{{([^}}]*)\}}|\bfrom\s+[\w.]+\s+import\s+((?:{_NAME}(?:\s+as\s+{_NAME})?)"
    rf"(?:\s*,\s*{_NAME}(?:\s+as\s+{_NAME})?)*)"
)
_USED = re.compile(rf"\b(?:use|import)\s+((?:{_NAME}(?:::|\.))+{_NAME})\s*;")
_CUE = re.compile(
    r"\b(?:class|function|method|struct|enum|trait|interface|type|constant|macro|protocol|def|fn|func"
    r"|(?:type )?signatures?\s+of|definitions?\s+of|fields\s+of|parameters\s+of|arguments\s+of"
    r"|members\s+of|methods\s+of)"
    rf"\s+(?:the\s+)?(?:(?:class|function|method|struct|enum|trait|interface|type)\s+)?({_DOTTED})"
)
_BEFORE = re.compile(rf"\b({_DOTTED})\s+(?:class|function|method|struct|enum|trait|interface)\b")
_LIKE_CODE = re.compile(
    r"^(?:_*[a-z0-9]+_\w*|_+[A-Za-z]\w*|[A-Z]+_[A-Z0-9_]+|[a-z]+[A-Z]\w*|"
    r"[A-Z][a-z0-9]+[A-Z]\w*|[A-Z]{2,}[a-z]\w*)$"
)
_PROSE = frozenset(
    re.findall(
        r"\w+",
        """
        a an and any are as at by can could do does for from has have how i in is it its me my
        need of on or our please return returns returned should signature signatures definition
        definitions that the their there these this those to type types use used using want was
        we what when where which who why will with would you your exact full public look like
        takes take class function method struct github javascript typescript readme todo api json
        http https
        """,
    )
)
_PLACE = re.compile(r"\b(?:from|in|under|inside|at)\s+[`'\"]?[\w./:@~-]*$")
MOST = 8  # symbols of one question

Place = tuple[str, ...]

_QUOTED = re.compile(r"""["'`]([^"'`\s]+)["'`]""")
_FROM = re.compile(r"\b(?:from|in|of|at|import|use|package|under|inside)\s+([\w./:@~-]+)")
_PATH = re.compile(r"(?<![\w/.])(/?(?:[\w@.-]+/)+[\w@.-]*|\w+(?:(?:\.|::)\w+)+)")
_ROOTS = frozenset({"crate", "self", "super", "", ".", "..", "@", "~"})


class OwnerReply(msgspec.Struct, frozen=True):
    """What an owner said, and the tokens that took; `error` is why it said nothing."""

    text: str
    tokens: int
    error: str = ""


class AskOwner(Protocol):
    """Asks a continuation of an agent, which goes on itself; given by the program."""

    async def __call__(self, owner: str, question: str, max_tokens: int) -> OwnerReply:
        """Return its answer; may raise TimeoutError, or PrsmError where it cannot be asked."""

    async def give_up(self, owner: str) -> int | None:
        """End who was answering for an owner, late; return its tokens, None where nobody knows."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long each way may take in seconds, and the tokens that owners may use in all."""

    oracle_s: float = 20.0
    owner_s: float = 120.0
    tokens: int = 100_000


class _Agent(msgspec.Struct, frozen=True):
    region: str
    root: str


class _Cached(msgspec.Struct, frozen=True):
    """An answer, and what it was made of: files by root and path; of an owner, all its region."""

    text: str
    stamps: Stamps


class A2ARouter:
    """Owns the map of regions, the cache, and the count of owners' tokens.

    `workspace` is the tree that all begin with; an agent in a worktree is registered with its root.
    """

    def __init__(
        self,
        workspace: str,
        oracle: Oracle,
        *,
        services: ProviderServices,
        ask_owner: AskOwner | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._workspace = os.path.realpath(workspace)
        self._oracle = oracle
        self._services = services
        self._ask_owner = ask_owner
        self._limits = limits or Limits()
        self._agents: dict[str, list[_Agent]] = {}
        self._cache: dict[tuple[str, str], _Cached] = {}
        self._asking: dict[tuple[str, str, bool], asyncio.Future[str]] = {}
        self._unanswered: dict[tuple[str, str], str] = {}  # why, till it is told
        self.tokens = 0  # that owners' answers took

    def register_agent(self, region: str, agent_id: str, root: str | None = None) -> None:
        """Note whose a region is, and the worktree that it works in."""
        mine = self._agents.setdefault(agent_id, [])
        folder = os.path.realpath(root) if root else self._workspace
        mine.append(_Agent(plain(region) or ".", folder))

    def unregister_agent(self, agent_id: str) -> None:
        """Note that an agent is gone; its answers stay while its region is as it was."""
        self._agents.pop(agent_id, None)

    async def answer(self, requesting_agent: str, question: str) -> str | None:
        """Answer a question in plain words, each symbol that it is about; None without one."""
        symbols = symbols_in(question)
        texts = [await self.resolve(requesting_agent, each, question) for each in symbols]
        return "\n\n".join(texts) or None

    async def resolve(self, requesting_agent: str, symbol_name: str, context: str = "") -> str:
        """Return `kind name (path:start-end)` and the definition, or that there is none.

        `context` is an import path, or a line that uses it. Two who ask at once get one answer.
        """
        name = symbol_name.strip().strip("`'\"")
        owner = owner_of(self._regions(), context)
        key = (name, owner or "")
        if (hit := self._hit(key)) is not None:
            return hit
        while (running := self._asking.get((*key, owner == requesting_agent))) is not None:
            await asyncio.wait([running])
            if not running.cancelled():
                return running.result()
        return await self._alone(requesting_agent, key, context)

    async def _alone(self, requesting: str, key: tuple[str, str], context: str) -> str:
        """Resolve what nobody else does just now; who comes meanwhile gets the same answer."""
        running: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        mark = (*key, key[1] == requesting)
        self._asking[mark] = running
        try:
            text = await self._resolve(requesting, key, context)
            running.set_result(text)
        finally:
            del self._asking[mark]
            if not running.done():  # whoever waits for it does it again
                running.cancel()
        return text

    async def _resolve(self, requesting: str, key: tuple[str, str], context: str) -> str:
        name, owner = key
        late = ""
        try:
            async with deadline(self._services, self._limits.oracle_s):
                found = await self._find(name, owner, context)
            if found:
                text = render([one for _, one in found])
                stamps: Stamps = {(root, one.path): look(root, one.path) for root, one in found}
                self._cache[key] = _Cached(text, stamps)
                return text
        except TimeoutError:
            late = " (the workspace could not be looked through in time)"
        if owner and owner != requesting:
            said = await self._by_owner(key, context)
            if said is not None:
                return said
            if (why := self._unanswered.pop(key, None)) is not None:
                late += f" ({owner} was not heard: {why})"
        return await self._not_found(name, late)

    async def _find(self, name: str, owner: str, context: str) -> list[tuple[str, Found]]:
        """Return what has the name, each with its root: what an owner has made stands for it."""
        near = ["/".join(place) for place in places(context) if place]
        everyone = [each for held in self._agents.values() for each in held]
        apart = [each for each in everyone if each.root != self._workspace]
        mine = [each for each in self._agents.get(owner, ()) if each.root != self._workspace]
        found: list[tuple[str, Found]] = []
        for each in [*mine, *(one for one in apart if one not in mine)]:
            await self._oracle.refresh(each.root)
            made = await self._oracle.find(each.root, name, near)
            found += [(each.root, one) for one in made if is_below(one.path, each.region)]
        await self._oracle.refresh(self._workspace)
        rest = await self._oracle.find(self._workspace, name, near)
        found += [
            (self._workspace, one)
            for one in rest
            if not any(is_below(one.path, each.region) for each in apart)
        ]
        regions = [each.region for each in self._agents.get(owner, ())]
        theirs = [one for one in found if any(is_below(one[1].path, r) for r in regions)]
        return theirs or found

    async def _by_owner(self, key: tuple[str, str], context: str) -> str | None:
        """Ask the owner, None where it cannot be asked, is late or says nothing."""
        name, owner = key
        room = min(OWNER_TOKENS, self._limits.tokens - self.tokens)
        mine = self._agents.get(owner)
        if self._ask_owner is None or not mine:
            return None
        if room <= 0:
            self._unanswered[key] = f"the {self._limits.tokens} tokens for owners are used up"
            return None
        root = mine[0].root
        seen = await self._oracle.stamps(root, mine[0].region)
        stamps: Stamps = {(root, path): stamp for path, stamp in seen.items()}
        try:
            async with deadline(self._services, self._limits.owner_s):
                reply = await self._ask_owner(owner, _question(name, context), room)
        except TimeoutError:
            used = await self._ask_owner.give_up(owner)
            self.tokens += room if used is None else used
            self._unanswered[key] = "it did not answer in time"
            return None
        except PrsmError as error:
            self._unanswered[key] = str(error)
            return None
        self.tokens += reply.tokens
        if not reply.text.strip():
            self._unanswered[key] = reply.error or "it said nothing"
            return None
        text = cut(reply.text.strip(), MAX_TEXT)
        self._cache[key] = _Cached(text, stamps)
        return text

    async def _not_found(self, name: str, late: str) -> str:
        text = f"Symbol '{name}' not found in workspace symbol tree or active agents{late}."
        try:
            async with deadline(self._services, self._limits.oracle_s):
                near = await self._oracle.near(self._workspace, name)
                unread = await self._oracle.unread(self._workspace)
        except TimeoutError:
            return text
        if near:
            text += f" Near names: {', '.join(near)}."
        if unread:
            shown = ", ".join(f"{path} ({why})" for path, why in unread[:3])
            text += f" Not looked into: {shown}{' and others' if len(unread) > 3 else ''}."
        return text

    def _hit(self, key: tuple[str, str]) -> str | None:
        """Return a cached answer, None where a file that it was made of is another now."""
        cached = self._cache.get(key)
        if cached is None:
            return None
        if any(look(root, path) != stamp for (root, path), stamp in cached.stamps.items()):
            del self._cache[key]
            return None
        return cached.text

    def _regions(self) -> dict[str, str]:
        return {one.region: agent for agent, mine in self._agents.items() for one in mine}


def _question(name: str, context: str) -> str:
    about = f" It is used so: {context.strip()[:_MAX_CONTEXT]}" if context.strip() else ""
    return (
        f"What is the signature of `{name}`?{about} Answer with the signature or definition only, "
        "without a word of explanation, from what you know already; read no files."
    )


def symbols_in(text: str) -> list[str]:
    """Return the names that a question is about, in its order; none where it is about none.

    What looks like code is a name: in backquotes, with capitals or underscores inside, called,
    imported, or behind a word such as `class`. The path behind `from` is where it is, and no name.
    """
    found: dict[str, int] = {}
    for pattern in (_CODE, _CUE, _BEFORE, _USED):
        for match in pattern.finditer(text):
            _add(found, match.group(1), match.start(1), text)
    for match in _IMPORTED.finditer(text):
        for each in re.split(r"\s*,\s*", (match.group(1) or match.group(2)).strip()):
            _add(found, each.split(" as ")[0].strip(), match.start(), text)
    for match in _WORD.finditer(text):
        name, called = match.group(1), match.group(2)
        if called or any(map(_LIKE_CODE.match, re.split(r"\.|::|#", name))):
            _add(found, name, match.start(), text)
    ordered = sorted(found, key=lambda name: (found[name], name))
    return [name for name in ordered if not _is_within(name, ordered)][:MOST]


def _add(found: dict[str, int], name: str, place: int, text: str) -> None:
    if name.lower() in _PROSE or len(name) < 2 or _PLACE.search(text[:place]):
        return
    found.setdefault(name, place)


def _is_within(name: str, others: list[str]) -> bool:
    """Return whether another name is the same, said with what it is in."""
    return any(
        other != name and re.search(rf"(?:\.|::|#){re.escape(name)}$", other) for other in others
    )


def places(context: str) -> list[Place]:
    """Return the places that a text names, in parts: paths, modules of Python, Rust, Go, Java."""
    found: dict[Place, None] = {}
    for pattern in (_QUOTED, _FROM, _PATH):
        for match in pattern.finditer(context):
            for place in _path_parts(match.group(1)):
                found[place] = None
    return list(found)


def _path_parts(text: str) -> Iterable[Place]:
    """Return a path as parts; one with dots may be a module, or a file."""
    text = text.strip().rstrip(".,;:?!)")
    if "/" in text:
        yield _clean(without_suffix(text).split("/"))
    elif "::" in text:
        yield _clean(text.split("::"))
    else:
        stem = without_suffix(text)
        yield _clean([stem] if stem != text else text.split("."))


def _clean(parts: Iterable[str]) -> Place:
    return tuple(part for part in parts if part not in _ROOTS)


def owner_of(regions: Mapping[str, str], context: str) -> str | None:
    """Return whose region a text speaks of, None where that is nobody's, or not to be told.

    The region that agrees with most parts of a place wins: it stands in the place (`core` in
    `../../core/src/auth`), or ends where that begins (`src/com/acme/core` of `com.acme.core.Auth`).
    """
    named = places(context)
    scores = {
        region: max((_agreement(_region(region), p) for p in named), default=(0, 0))
        for region in regions
    }
    top = max(scores.values(), default=(0, 0))
    owners = {regions[region] for region, score in scores.items() if score == top}
    return owners.pop() if top > (0, 0) and len(owners) == 1 else None


def _region(region: str) -> Place:
    return _clean(without_suffix(plain(region)).split("/"))


def _agreement(region: Place, place: Place) -> tuple[int, int]:
    """Return how many parts agree, and how near to the place's beginning."""
    for start in range(len(place) - len(region) + 1):
        if region and place[start : start + len(region)] == region:
            return len(region), -start
    for size in range(min(len(region), len(place)), 0, -1):
        if region[-size:] == place[:size]:
            return size, -1
    return 0, 0
