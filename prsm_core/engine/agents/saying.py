"""What a person says to an agent, as the text that is kept of it.

It is made before anything is written, so that whoever says it hears what is wrong with it. What it
refers to by `@path` is read once, here: a resume sends the same text. Texts of agents do not come
by: what they write reads no file.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from prsm_core.domain.record import Record
from prsm_core.domain.writes import Told
from prsm_core.errors import ConfigError
from prsm_core.kit.sanitize import UNFIT_CURE, is_fit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from prsm_core.config import Settings
    from prsm_core.engine.journal.unit import Journal
    from prsm_core.engine.providers.registry import ProviderRegistry
    from prsm_core.engine.workspace_files import WorkspaceFiles
    from prsm_core.workspace.references import Read


class Said(Record, frozen=True):
    """The text that is kept, and what of its references is not shown and why."""

    text: str
    told: Sequence[str] = ()

    @property
    def notices(self) -> Sequence[Told]:
        """What tells of that, for the step in which the text is kept."""
        return [Told(kind="notice", data={"level": "warning", "text": one}) for one in self.told]


class Saying:
    """Makes the texts of what persons say: with their images, and what they refer to."""

    def __init__(
        self,
        providers: ProviderRegistry,
        settings: Settings,
        journal: Journal,
        workspace: str,
        state_dir: Path,
        files: WorkspaceFiles,
    ) -> None:
        """Read references in the workspace, and keep images below the state directory."""
        self._files = files
        self._providers = providers
        self._settings = settings
        self._journal = journal
        self._workspace = workspace
        self._state_dir = state_dir

    @asynccontextmanager
    async def text(
        self,
        said: str,
        images: Sequence[str],
        provider: str,
        folder: str,
        agent: str | None = None,
    ) -> AsyncIterator[Said]:
        """Yield what is kept of what is said to an agent of a provider; its images are kept.

        This is left once a ledger has the text: until then none of its images is removed, whatever
        is deleted meanwhile, and nothing new is written to files; then a snapshot of the `folder`
        is taken. Each image is a path, a `data:` URL, or the mark of one that is kept. Raises
        ConfigError for one that is unfit (code `unfit_image`), for a provider that takes none
        (`no_images`), for what no ledger can keep (`unfit`), and for a text that says nothing
        (`blank`): vendors refuse it, and an agent may not end while it has not read it.
        """
        if not said.strip() and not images:
            raise ConfigError("what is said is blank", hint="say something", code="blank")
        if not is_fit(said):  # nothing has begun yet: later a step would be refused in the middle
            raise ConfigError("what is said is no Unicode text", hint=UNFIT_CURE, code="unfit")
        async with self._text(said, images, provider) as kept, self.before(said, folder, agent):
            yield kept

    def before(
        self, said: str, folder: str, agent: str | None = None
    ) -> AbstractAsyncContextManager[None]:
        """Have a snapshot taken of the files as they are before this is said, if any is."""
        return self._files.before(said, folder, agent)

    @asynccontextmanager
    async def _text(self, said: str, images: Sequence[str], provider: str) -> AsyncIterator[Said]:
        may_refer = "@" in said and self._settings.context.references
        if not images and not may_refer:
            yield Said(said)
            return
        shows_images = await self._shows_images(provider)
        if images and not shows_images:
            raise ConfigError(
                f"{provider} takes no images", hint="choose another provider", code="no_images"
            )
        read = None
        if may_refer and not self._providers.is_external(provider):
            read = await self._read(said, shows_images=shows_images)
        async with self._holding([*images, *(() if read is None else read.images)]):
            yield await asyncio.to_thread(self._kept, said, images, read)

    def _holding(self, images: Sequence[str]) -> AbstractAsyncContextManager[None]:
        """Let no image be removed that is kept meanwhile, if there are some."""
        if not images:
            return nullcontext()
        from prsm_core.workspace.images import IMAGES, holding_images  # once there is an image

        return holding_images(self._state_dir / IMAGES)

    async def _shows_images(self, provider: str) -> bool:
        if self._providers.is_external(provider):
            return False
        return (await self._providers.get(provider)).capabilities.images

    async def _read(self, said: str, *, shows_images: bool) -> Read:
        from prsm_core.permissions.paths import why_not_read  # once there may be a reference
        from prsm_core.workspace.references import read_references

        def why_not(path: str) -> str | None:
            return why_not_read(path, workspace, workspace)

        workspace = self._workspace
        return await asyncio.to_thread(
            read_references, said, workspace, why_not, shows_images=shows_images
        )

    def _kept(self, said: str, images: Sequence[str], read: Read | None) -> Said:
        """Keep the images; those that are only referred to are told of where they are unfit."""
        from prsm_core.workspace.images import IMAGES, keep_images  # once there is an image

        folder, told = self._state_dir / IMAGES, [] if read is None else list(read.told)
        marks = keep_images(images, folder)
        for path in () if read is None else read.images:
            try:
                marks = [*marks, *keep_images([*marks, path], folder)[len(marks) :]]
            except ConfigError as unfit:
                told.append(unfit.message)
        text = "\n".join((said, "", *marks)) if marks else said
        if read is not None and read.blocks:
            from prsm_core.workspace.references import with_references

            text = with_references(text, [self._journal.redact(block) for block in read.blocks])
        return Said(text, told)
