"""What a person says to an agent, as the text that is kept of it.

It is made before anything is written, so that whoever says it hears what is wrong with it.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prsm_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from prsm_core.engine.providers.registry import ProviderRegistry


class Saying:
    """Makes the texts of what persons say: each cites the images that it is said with."""

    def __init__(self, providers: ProviderRegistry, state_dir: Path) -> None:
        """Keep images below the state directory."""
        self._providers = providers
        self._state_dir = state_dir

    @asynccontextmanager
    async def text(self, said: str, images: Sequence[str], provider: str) -> AsyncIterator[str]:
        """Yield what is kept of what is said to an agent of a provider; its images are kept.

        This is left once a ledger has the text: until then none of its images is removed, whatever
        is deleted meanwhile. Each image is a path, a `data:` URL, or the mark of one that is kept.
        Raises ConfigError for one that is unfit (code `unfit_image`), and for a provider that
        takes none (`no_images`).
        """
        if not images:
            yield said
            return
        if not await self._shows_images(provider):
            raise ConfigError(
                f"{provider} takes no images", hint="choose another provider", code="no_images"
            )
        from prsm_core.workspace.images import (  # once there is an image
            IMAGES,
            holding_images,
            keep_images,
        )

        folder = self._state_dir / IMAGES
        async with holding_images(folder):
            marks = await asyncio.to_thread(keep_images, images, folder)
            yield "\n".join((said, "", *marks))

    async def _shows_images(self, provider: str) -> bool:
        if self._providers.is_external(provider):
            return False
        return (await self._providers.get(provider)).capabilities.images
