"""Frontends: user interfaces. AppHandle is their only door to the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from prsm_core.interfaces.app_handle import AppHandle, RunHandle
from prsm_core.interfaces.records import Registration
from prsm_core.interfaces.runs import RunOptions, RunResult

if TYPE_CHECKING:
    from prsm_core.interfaces.hub import HubFrontend

__all__ = [
    "AppHandle",
    "Frontend",
    "FrontendFactory",
    "FrontendSpec",
    "FrontendWithSettings",
    "RunHandle",
    "RunOptions",
    "RunResult",
]


class Frontend(ABC):
    """A user interface."""

    @abstractmethod
    async def run(self, app: AppHandle) -> int:
        """Drive the application and return the exit code."""


FrontendFactory = Callable[[Mapping[str, Any]], "Frontend | HubFrontend"]
FrontendWithSettings = Callable[[Mapping[str, Any], Any], "Frontend | HubFrontend"]
SCOPES = ("session", "hub")


class FrontendSpec(Registration, frozen=True, kw_only=True):
    """Registers a frontend; `prsm` takes the interactive one of highest priority on a terminal.

    Without a person, not `interactive`, every Ask is denied or answered by --on-ask.

    One that `stays` does not end with a run: `prsm` alone opens it, and `options.task` may be None.
    Any other starts `options.task` and ends with that run.

    The factory gives a Frontend, or a HubFrontend with the scope `hub`.

    `settings` is a msgspec.Struct or its import string: what `frontends.NAME` of the configuration
    may hold, and the factory's second argument. A frontend that shares the `section` of another one
    of its plugin names that, and has no model of its own.
    """

    word = "frontend"

    interactive: bool
    priority: int
    factory: str | FrontendFactory | FrontendWithSettings
    settings: str | type[Any] | None = None
    stays: bool = False
    scope: str = "session"
    section: str | None = None

    def __post_init__(self) -> None:
        """Check the name and the scope."""
        super().__post_init__()
        if self.section is not None and self.settings is not None:
            raise ValueError(f"frontend {self.name}: it has a section, or shares one; not both")
        if self.scope not in SCOPES:
            raise ValueError(
                f"frontend {self.name}: {self.scope!r} is no scope: it is session or hub"
            )
