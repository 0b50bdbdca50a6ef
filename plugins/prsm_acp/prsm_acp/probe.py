"""Which version of an agent's program is there, and whether it is one that was tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core import (
    numbers_of,
    printed_version,
    version_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_acp.manifest import Manifest
    from prsm_core import ProviderServices

GAPS = (
    "the agent itself decides which of its tools it asks leave for",
    "tools that an agent of PRSM was not given are refused when they are asked for, not withheld",
)


async def version(
    argv: tuple[str, ...], manifest: Manifest, services: ProviderServices, env: Mapping[str, str]
) -> str | None:
    """Return the version of an agent; see printed_version."""
    text = await printed_version(
        argv,
        services,
        name=manifest.name,
        cure=f"Install it: {manifest.install}." if manifest.install else "Set `command`.",
        env=env,
        package=manifest.package,
    )
    return version_in(text or "")


def is_tested(found: str | None, manifest: Manifest) -> bool:
    """Return whether a version is the one the manifest was tried with, but for its last number."""
    numbers, tried = numbers_of(found or ""), numbers_of(manifest.tested or "")
    return numbers is not None and tried is not None and numbers[:2] == tried[:2]
