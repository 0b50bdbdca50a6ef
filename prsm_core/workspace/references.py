"""What a person refers to by `@path`: found in the text, and read as it is now.

`@src/a.py` is a file, `@src/a.py:10-40` some of its lines, `@src/` a folder, `@"two words.md"` a
name with blanks; not in code, after a backslash or within a word. Nothing outside the workspace is
read, wherever links lead, and nothing that waits or acts when opened.
"""

from __future__ import annotations

import os
import re
import stat
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from prsm_core.kit.quotation import REFERENCED, quote, quote_word
from prsm_core.kit.regular import open_file
from prsm_core.workspace.images import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LARGEST = 100 * 1000  # bytes of one file; the rest is cut
MOST_BYTES = 4 * LARGEST  # of all that a text refers to
MOST = 20  # references of one text
_SEARCHED = 16 * 1024 * 1024  # bytes of a file that are looked through for a line
_LOOKED_AT = 8192  # bytes that tell whether a file is text
_OUTLINE_ENTRIES, _OUTLINE_DEPTH, _FOLDER_ENTRIES = 300, 3, 2000
_LEFT_OUT = frozenset({"__pycache__", "node_modules", "venv"})  # of an outline, beside hidden ones

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_REFERENCE = re.compile(
    r"""(?<![^\s(\[{"'])@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[^\s"'`<>|@\\]+))"""
    r"""(?P<range>:\d+(?:-\d+)?(?!\d))?"""
)
_RANGE = re.compile(r":(\d{1,9})(?:-(\d{1,9}))?$")
_TRAILING = ".,;:!?)]}…"
_LIKE_A_FILE = re.compile(r"/|\.\w{1,8}$")


class Reference(NamedTuple):
    """One reference of a text: where it stands, its path, and the lines it names, from 1."""

    start: int
    end: int
    path: str
    first: int | None = None
    last: int | None = None


class Read(NamedTuple):
    """What a text refers to: blocks for its model, paths of images, and what is to be told."""

    blocks: Sequence[str] = ()
    images: Sequence[str] = ()
    told: Sequence[str] = ()


class LeftOutError(Exception):
    """Raised for what is not shown; the message says why."""


def find_references(text: str) -> list[Reference]:
    """Return the references of a text in their order, whether there is such a file or not."""
    plain = _without_code(text)
    return [
        found
        for found in map(_reference, _REFERENCE.finditer(plain))
        if found.path and plain[found.start : found.end] == text[found.start : found.end]
    ]


def _reference(match: re.Match[str]) -> Reference:
    start, quoted = match.start(), match["quoted"]
    if quoted is not None:
        path, lines, end = quoted, _RANGE.search(match["range"] or ""), match.end()
    else:
        plain = match[0][1:].rstrip(_TRAILING)
        lines, end = _RANGE.search(plain), start + 1 + len(plain)
        path = plain[: lines.start()] if lines else plain
    if lines is None:
        return Reference(start, end, path)
    first = int(lines[1])
    return Reference(start, end, path, first, int(lines[2] or first))


def _without_code(text: str) -> str:
    """Return a text of the same length with blanks in place of its code."""
    lines, fence = [], ""
    for line in text.splitlines(keepends=True):
        opened = _FENCE.match(line)
        is_code = bool(fence or opened)
        if fence:
            if opened and opened[1].startswith(fence) and not line[opened.end() :].strip():
                fence = ""
        elif opened:
            fence = opened[1]
        lines.append(_blank(line) if is_code else line)
    return _CODE.sub(lambda match: _blank(match[0]), "".join(lines))


def _blank(text: str) -> str:
    return re.sub(r"[^\r\n]", " ", text)


def read_references(
    text: str, workspace: str, why_not: Callable[[str], str | None], *, shows_images: bool
) -> Read:
    """Read what a text refers to, each once.

    `why_not` says why a real path, relative to the workspace, is not shown. A missing file that
    does not look like one is plain text.
    """
    reader = _Reader(workspace, why_not, shows_images=shows_images)
    blocks: list[str] = []
    images: list[str] = []
    told: list[str] = []
    seen: set[tuple[str, int | None, int | None]] = set()
    for reference in find_references(text):
        if reference[2:] in seen:
            continue
        seen.add(reference[2:])
        try:
            found = reader.read(reference)
        except LeftOutError as why:
            told.append(f"@{reference.path} is not shown: {why}")
        except OSError as error:
            told.append(f"@{reference.path} is not shown: {error.strerror}")
        else:
            blocks += found.blocks
            images += found.images
    return Read(blocks, images, told)


def with_references(text: str, blocks: Sequence[str]) -> str:
    """Return a text with what it refers to behind it."""
    return "\n".join((text, "", REFERENCED, *blocks))


class _Reader:
    """Reads what references name, within the limits of one text."""

    def __init__(
        self, workspace: str, why_not: Callable[[str], str | None], *, shows_images: bool
    ) -> None:
        self._root, self._why_not = os.path.realpath(workspace), why_not
        self._shows_images = shows_images
        self._left, self._count = MOST_BYTES, 0

    def read(self, reference: Reference) -> Read:
        path = self._resolve(reference)
        if path is None:
            return Read()
        self._count += 1
        if self._count > MOST:
            raise LeftOutError(f"a text may refer to {MOST} files")
        if self._left <= 0:
            raise LeftOutError(f"there are {MOST_BYTES // 1000} KB before it already")
        if path.is_dir():
            return self._block(reference.path, "", self._outline(path))
        with open_file(path, flags=os.O_NOFOLLOW) as file:
            if os.path.realpath(path) != str(path):
                raise LeftOutError("it was moved meanwhile")
            begin = file.read(_LOOKED_AT)
            if kind_of(begin) is not None:
                if self._shows_images:
                    return Read(images=[str(path)])
                raise LeftOutError("it is an image, and the provider of the agent takes none")
            if b"\0" in begin:
                raise LeftOutError("it is no text")
            return self._file(reference, begin, file)

    def _resolve(self, reference: Reference) -> Path | None:
        """Return the real path of what there is; None for what is plain text."""
        path = reference.path
        try:
            real = Path(os.path.realpath(Path(self._root, path)))
            mode = real.stat().st_mode
        except (OSError, ValueError):
            if "\0" in path or _LIKE_A_FILE.search(path) is None:
                return None
            raise LeftOutError("there is no such file in the workspace") from None
        if not real.is_relative_to(self._root):
            raise LeftOutError("it is outside the workspace")
        why = self._why_not(path) or self._why_not(os.path.relpath(real, self._root))
        if why is not None:
            raise LeftOutError(why)
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise LeftOutError("it is neither a file nor a folder")
        return real

    def _file(self, reference: Reference, begin: bytes, file: BinaryIO) -> Read:
        size = os.fstat(file.fileno()).st_size
        if reference.first is None:
            data = begin + file.read(LARGEST + 1 - len(begin))
            return self._block(reference.path, "", self._cut(data, size))
        data = begin + file.read(_SEARCHED - len(begin))
        lines = data.splitlines(keepends=True)
        first, last = max(reference.first, 1), reference.last or reference.first
        chosen = b"".join(lines[first - 1 : last])
        if not chosen:
            raise LeftOutError(
                f"it has no line {first}" if first <= last else "its lines end before"
            )
        last = min(last, len(lines))
        return self._block(reference.path, f", lines {first} to {last}", self._cut(chosen, None))

    def _cut(self, data: bytes, size: int | None) -> str:
        room = min(LARGEST, self._left)
        text = data[:room].decode(errors="replace")
        if len(data) <= room:
            return text
        whole = max(size or 0, len(data)) // 1000
        return f"{text.removesuffix(chr(0xFFFD))}\n… [cut by prsm at {room // 1000} of {whole} KB]"

    def _block(self, path: str, lines: str, text: str) -> Read:
        self._left -= len(text.encode(errors="replace"))
        return Read([f"{quote_word(path)}{lines}:\n{quote(text.removesuffix(chr(10)))}"])

    def _outline(self, folder: Path) -> str:
        """Return what is in a folder, and somewhat deeper; links are named, and not followed."""
        lines = list(islice(self._entries(folder, 0), _OUTLINE_ENTRIES + 1))
        if len(lines) > _OUTLINE_ENTRIES:
            lines[-1] = "… [cut by prsm]"
        return "\n".join(lines) or "(empty)"

    def _entries(self, folder: Path, depth: int) -> Iterator[str]:
        with os.scandir(folder) as found:
            names = sorted(entry.name for entry in islice(found, _FOLDER_ENTRIES))
        for name in names:
            path = folder / name
            if name.startswith(".") or name in _LEFT_OUT:
                continue
            if self._why_not(str(path.relative_to(self._root))) is not None:
                continue
            is_folder = path.is_dir() and not path.is_symlink()
            shown = os.fsencode(name).decode(errors="replace")
            shown = shown if shown.isprintable() else quote_word(shown)
            yield f"{'  ' * depth}{shown}{'/' if is_folder else ''}"
            if is_folder and depth + 1 < _OUTLINE_DEPTH and os.access(path, os.R_OK | os.X_OK):
                yield from self._entries(path, depth + 1)
