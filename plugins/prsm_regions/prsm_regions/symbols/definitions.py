"""What a text defines: names with kinds, places and signatures, read by tree-sitter."""

from __future__ import annotations

import re
import time
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from prsm_regions.symbols.grammars import loaded

if TYPE_CHECKING:
    from tree_sitter import Parser

    from prsm_regions.symbols.grammars import Grammar

MAX_TEXT = 2000  # bytes of a definition's text
_MAX_LINE = 240  # characters of a member, or of what has no body
_MAX_PARSE_S = 2.0  # CPU of one file; a real one of 2 MB takes a fifth of it
_PIECE = 64 * 1024  # bytes after which other threads have had their turn
HOLDERS = frozenset(
    (
        *("class", "interface", "enum", "struct", "union", "trait", "impl", "record"),
        *("annotation", "namespace", "module"),
    )
)
_TYPES = HOLDERS - {"namespace", "module"}  # functions in them are methods
_BLANKS = re.compile(r"\s+")
_MARKS = frozenset({"name", "body", "owner"})


class Definition(msgspec.Struct, frozen=True, gc=False):
    """A named thing."""

    kind: str  # class, function, method, field and so on, as the language calls it
    name: str
    scope: str  # what it is in, from outside in, joined by dots; blank at the top
    start: int  # the first line, from 1
    end: int  # the last line
    text: str  # up to the body, and of a class its members


class _Raw(msgspec.Struct, gc=False):
    kind: str
    name: str
    owner: str | None
    begin: int  # in bytes
    stop: int
    body: int  # where the body begins; `stop` without one
    start: int
    end: int
    pattern: int
    scope: str = ""
    depth: int = 0
    head: str = ""


class UnreadableError(Exception):
    """A text has no definitions that could be told in time."""


def definitions(source: bytes, grammar: Grammar) -> list[Definition]:
    """Return what a text defines, by place; errors in it hide no more than they must.

    Blocks, and lets other threads have their turn. Raises UnreadableError if that takes too long.
    """
    found = sorted(_matched(source, grammar), key=lambda raw: (raw.begin, -raw.stop))
    members = _nest(found, source)
    return [_finished(raw, members.get(position, ())) for position, raw in enumerate(found)]


def parse(source: bytes, grammar: Grammar) -> Any:
    """Return the syntax tree of a text; raises UnreadableError where it takes too long."""
    if len(source) <= _PIECE:
        return _parser(grammar).parse(source)
    limit = time.thread_time() + _MAX_PARSE_S
    view = memoryview(source)
    try:
        return _parser(grammar).parse(
            lambda place, _: bytes(view[place : place + _PIECE]),
            progress_callback=lambda _place, _errors: time.thread_time() > limit,
        )
    except ValueError as error:
        raise UnreadableError("it takes too long to parse") from error


def _parser(grammar: Grammar) -> Parser:
    from tree_sitter import Parser

    return Parser(loaded(grammar)[0])


def _matched(source: bytes, grammar: Grammar) -> list[_Raw]:
    from tree_sitter import QueryCursor

    tree = parse(source, grammar)
    best: dict[int, _Raw] = {}
    for pattern, captured in QueryCursor(loaded(grammar)[1]).matches(tree.root_node):
        kind = _kind(tuple(captured))
        node = captured[kind][0]
        body = captured["body"][0].start_byte if "body" in captured else node.end_byte
        for name in captured["name"]:
            begin = name.start_byte
            known = best.get(begin)
            if begin == name.end_byte or (known is not None and known.pattern <= pattern):
                continue  # the grammar put a name in where one is missing, or it is known
            best[begin] = _Raw(
                kind=kind,
                name=source[begin : name.end_byte].decode("utf-8", "replace"),
                owner=_text(source, captured["owner"][0]) if "owner" in captured else None,
                begin=node.start_byte,
                stop=node.end_byte,
                body=body,
                start=node.start_point[0] + 1,
                end=node.end_point[0] + 1,
                pattern=pattern,
            )
    return list(best.values())


@cache
def _kind(captures: tuple[str, ...]) -> str:
    return next(name for name in captures if name not in _MARKS)


def _text(source: bytes, node: Any) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _nest(found: list[_Raw], source: bytes) -> dict[int, list[_Raw]]:
    """Set scopes and heads; return the direct members of each holder by its position."""
    members: dict[int, list[_Raw]] = {}
    stack: list[int] = []
    for position, raw in enumerate(found):
        while (stack and found[stack[-1]].stop < raw.stop) or (
            stack and found[stack[-1]].stop <= raw.begin
        ):
            stack.pop()
        raw.head = _head(source, raw)
        if stack:
            above = found[stack[-1]]
            raw.scope = f"{above.scope}.{above.name}" if above.scope else above.name
            if above.kind in HOLDERS:
                members.setdefault(stack[-1], []).append(raw)
            if above.kind in _TYPES and raw.kind == "function":
                raw.kind = "method"
        if raw.owner is not None:
            raw.scope = raw.owner.replace("::", ".")
        stack.append(position)
    return members


def _head(source: bytes, raw: _Raw) -> str:
    """Return a definition up to its body, its blanks as they are where it has a body."""
    if raw.body < raw.stop:
        return source[raw.begin : raw.body].decode("utf-8", "replace").rstrip(" \t\r\n{")
    whole = source[raw.begin : raw.begin + 4 * _MAX_LINE].decode("utf-8", "replace")
    if raw.begin + 4 * _MAX_LINE >= raw.stop:
        whole = source[raw.begin : raw.stop].decode("utf-8", "replace")
    return cut(whole.rstrip(" \t\r\n;,"), 3 * _MAX_LINE)


def _finished(raw: _Raw, members: list[_Raw] | tuple[()]) -> Definition:
    lines = [cut(raw.head, MAX_TEXT)]
    lines += [f"    {one_line(member.head)}" for member in members]
    text = "\n".join(lines) if members else lines[0]
    return Definition(raw.kind, raw.name, raw.scope, raw.start, raw.end, cut(text, MAX_TEXT))


def one_line(text: str) -> str:
    """Return a signature in one line, and not too long."""
    return cut(_BLANKS.sub(" ", text) if "\n" in text else text, _MAX_LINE)


def cut(text: str, limit: int) -> str:
    """Return a text of `limit` bytes at most, with a mark where it was longer."""
    if len(text) * 4 <= limit or len(raw := text.encode("utf-8", "replace")) <= limit:
        return text
    return raw[: limit - 4].decode("utf-8", "ignore") + " …"
