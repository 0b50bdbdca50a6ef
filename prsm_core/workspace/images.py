"""Images of prompts, cited by marks in the text; each file lies once in the state, by its hash."""

from __future__ import annotations

import asyncio
import base64
import binascii
import fcntl
import hashlib
import os
import re
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.domain.images import Image
from prsm_core.domain.turns import IMAGE_SCHEME
from prsm_core.errors import ConfigError
from prsm_core.kit.regular import open_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence

IMAGES = "images"  # the folder of the state directory that they lie in
LARGEST = 5 * 1024 * 1024  # bytes: what the strictest vendor takes
MOST = 20  # of one prompt
_LONGEST_NAME = 80
_LOCK_SECONDS = 10.0  # who says something holds it from its images to the step that cites them
_POLL_SECONDS = 0.01
FILE = re.compile(r"[0-9a-f]{64}\.(?:png|jpg|gif|webp)")
_CITED = re.compile(rf"!\[([^\[\]\n]*)\]\({IMAGE_SCHEME}({FILE.pattern})\)")
_TYPES = {"png": "image/png", "jpg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}
_DATA = re.compile(r"data:(image/[a-z]+);base64,(.*)", re.DOTALL)
_Content = tuple[str, str, bytes]  # its name, the kind of its file, and what it holds
_NOT_IN_NAMES = re.compile(r"[\[\]()\x00-\x1f\x7f]")


@asynccontextmanager
async def holding_images(folder: Path) -> AsyncIterator[None]:
    """Let none be removed until this is left: what is kept meanwhile is to be cited by then.

    Raises ConfigError if the folder cannot be made (`unfit_image`) or is in use for too long.
    """
    _make(folder)
    with _opened(folder) as descriptor:
        for _ in _lock(folder, descriptor, fcntl.LOCK_SH):
            await asyncio.sleep(_POLL_SECONDS)
        yield


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unkept(folder, error) from error


def keep_images(given: Sequence[str], folder: Path) -> list[str]:
    """Keep images, each a path, a `data:` URL or a mark; return the marks that cite them.

    Call it within `holding_images` until a ledger cites them. Raises ConfigError (`unfit_image`)
    for a bad image or too many; then none is kept.
    """
    read = check_images(given, folder)
    try:
        return [one if isinstance(one, str) else _keep(*one, folder) for one in read]
    except OSError as error:
        raise _unkept(folder, error) from error


def check_images(given: Sequence[str], folder: Path) -> list[str | _Content]:
    """Return the marks among what `keep_images` is given, and the rest as it is read."""
    if len(given) > MOST:
        raise _unfit(f"{len(given)} images are too many: {MOST} are the most of one prompt")
    return [_known(one, folder) if _is_mark(one) else _read(one) for one in given]


def _is_mark(given: str) -> bool:
    return _CITED.fullmatch(given) is not None


def names_no_file(given: str) -> bool:
    """Return whether an image can be had without reading a path: it is a mark, or a URL."""
    return given.startswith("data:") or _is_mark(given)


def cited_images(texts: Iterable[str], folder: Path) -> tuple[Image, ...]:
    """Return the images that texts cite, each once, in their order; their files may be gone."""
    found: dict[str, Image] = {}
    for text in texts:
        for match in _CITED.finditer(text):
            name, file = match[1], match[2]
            media_type = _TYPES[file.rpartition(".")[2]]
            image = Image(mark=match[0], name=name, media_type=media_type, path=str(folder / file))
            found.setdefault(file, image)
    return tuple(found.values())


def remove_images(
    folder: Path, files: Collection[str], cited: Callable[[], Collection[str]]
) -> int:
    """Remove image files that no ledger cites, by `cited`; return how many. Raises ConfigError."""
    if not files or not folder.is_dir():
        return 0
    with _opened(folder) as descriptor:
        for _ in _lock(folder, descriptor, fcntl.LOCK_EX):
            time.sleep(_POLL_SECONDS)
        return sum(_removed(folder / file) for file in sorted(set(files) - set(cited())))


def _removed(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be deleted: {error.strerror}", hint="see to its permissions"
        ) from error
    return True


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)  # and the lock goes with it


def _lock(folder: Path, descriptor: int, kind: int) -> Iterator[None]:
    """Lock the folder; each time that it is in use, yield for the caller to wait a little."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ConfigError(
                    f"{folder} is in use by another process: waited {_LOCK_SECONDS:g} seconds",
                    hint=f"see which one: fuser {folder}",
                ) from None
        yield


def _known(mark: str, folder: Path) -> str:
    [image] = cited_images([mark], folder)
    if not Path(image.path).is_file():
        raise _unfit(f"the image {image.name} is not kept here")
    return mark


def _read(given: str) -> _Content:
    is_url = given.startswith("data:")
    name, data = ("image", _decoded(given)) if is_url else (Path(given).name, _content(given))
    kind = kind_of(data)
    if kind is None:
        raise _unfit(f"{name} is no image of a kind that models are shown: PNG, JPEG, GIF, WebP")
    declared = _DATA.match(given)
    if declared is not None and declared[1] != _TYPES[kind]:
        raise _unfit(f"{name} is said to be {declared[1]} and is {_TYPES[kind]}")
    return _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME], kind, data


def _decoded(url: str) -> bytes:
    match = _DATA.fullmatch(url)
    if match is None:
        raise _unfit("a data URL of an image is data:image/TYPE;base64,DATA")
    try:
        data = base64.b64decode(match[2], validate=True)
    except binascii.Error as error:
        raise _unfit(f"the data URL of an image is not base64: {error}") from error
    if len(data) > LARGEST:
        raise _too_large("image", len(data))
    return data


def _content(path: str) -> bytes:
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise _unfit(f"the image {path} cannot be read: {error.strerror}") from error
    if len(data) > LARGEST:
        raise _too_large(path, max(size, len(data)))
    return data


def kind_of(data: bytes) -> str | None:
    """Return the kind of an image by its first bytes, as browsers and vendors do."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if data.startswith(b"\xff\xd8\xff"):
        return "jpg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    return "webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def _keep(name: str, kind: str, data: bytes, folder: Path) -> str:
    file = f"{hashlib.sha256(data).hexdigest()}.{kind}"
    path = folder / file
    if not path.exists():
        half = folder / f".{file}.{os.getpid()}"
        handle = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(handle, "wb") as writing:  # noqa: PTH123 - of a handle
            writing.write(data)
        half.replace(path)  # whole or not at all
    return f"![{name}]({IMAGE_SCHEME}{file})"


def _too_large(name: str, size: int) -> ConfigError:
    limit = LARGEST // 1024 // 1024
    return _unfit(f"{name} has {size / 1024 / 1024:.1f} MiB: {limit} are the most of one image")


def _unkept(folder: Path, error: OSError) -> ConfigError:
    return _unfit(f"images cannot be kept in {folder}: {error.strerror}")


def _unfit(message: str) -> ConfigError:
    return ConfigError(message, hint="give a smaller or another image", code="unfit_image")
