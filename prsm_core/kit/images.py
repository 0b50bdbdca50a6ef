"""Images of a turn, as a provider sends them with the text that cites them."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import TYPE_CHECKING

from prsm_core.errors import OrchestrationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prsm_core.domain.images import Image
    from prsm_core.domain.turns import AssembledContext


class SeenImages:
    """The images that a session was given: a text that is sent again takes its images along."""

    def __init__(self) -> None:
        self._images: dict[str, Image] = {}  # by mark

    def see(self, context: AssembledContext) -> None:
        """Take note of the images of a turn."""
        self._images.update((image.mark, image) for image in context.images)

    def of(self, text: str | None) -> tuple[Image, ...]:
        """Return the images that a text cites, in the order in which they were given."""
        if not text:
            return ()
        return tuple(image for mark, image in self._images.items() if mark in text)


async def read_base64(images: Iterable[Image]) -> list[tuple[str, str]]:
    """Return each image's media type and base64. Raises OrchestrationError if unreadable."""
    return await asyncio.to_thread(lambda: [(i.media_type, _encoded(i)) for i in images])


async def read_urls(images: Iterable[Image]) -> list[str]:
    """Return each image as a `data:` URL; raises what `read_base64` does."""
    return [f"data:{media_type};base64,{data}" for media_type, data in await read_base64(images)]


def _encoded(image: Image) -> str:
    try:
        return base64.b64encode(Path(image.path).read_bytes()).decode("ascii")
    except OSError as error:
        raise OrchestrationError(
            f"the image {image.name} cannot be read: {error.strerror}"
        ) from error
