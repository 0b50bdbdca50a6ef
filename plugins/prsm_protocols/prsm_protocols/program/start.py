"""What a start of a program is given: its command line, its environment, and its box.

In a box it sees its own folder at /run/prsm and the protocols at /protocols, both read-only;
without one the same things lie where they lie. The pages are those that the agent is pinned to.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prsm_core import Box
from prsm_protocols.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import SessionRequest
    from prsm_protocols.program.config import ProgramConfig
    from prsm_protocols.program.home import Home

RUN, PROTOCOLS = "/run/prsm", "/protocols"
PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a program is started.

    Attributes:
        environment: What is the same for each start.
        folder: Of the pages of the workspace, for an agent without a version of its own.
        box: The box, without the pages; None: it has none.
    """

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    folder: Path
    box: Box | None

    def pages(self, here: Mapping[str, Any] | None) -> tuple[Path, str]:
        """Return the folder of the pages that hold for the agent, and where its program sees it."""
        version = (here or {}).get("version")
        folder = Kept().folder(version.rpartition("@")[2]) if version else self.folder
        return folder, str(folder) if self.box is None else PROTOCOLS

    def options(self, here: Mapping[str, Any] | None, token: str) -> dict[str, Any]:
        """Return the environment of one start, and its box, as `start_process` takes them."""
        folder, seen = self.pages(here)
        environment = {**self.environment, "PRSM_PROTOCOLS": seen, "PRSM_TOKEN": token}
        if self.box is None:
            return {"env": environment}
        pages = {PROTOCOLS: os.path.realpath(folder)} if folder.is_dir() else {}
        values = {name: getattr(self.box, name) for name in Box.__struct_fields__}
        return {
            "env": environment,
            "box": Box(**{**values, "mounts": {**self.box.mounts, **pages}}),
        }


def plan_start(
    config: ProgramConfig, request: SessionRequest, home: Home, run: str, redis: str | None
) -> Start:
    """Return how an agent's program is started.

    `run` is where it finds aism without a box, `redis` the URL by which it asks; None: by its
    socket. Raises ModelNotAvailableError for a model's name that stands for no program.
    """
    workspace = request.workspace or request.cwd
    box = _box(config, request.box or Box(), home) if config.box or request.box else None
    run = run if box is None else RUN
    environment = {
        **config.env,
        "AGENT_ID": request.agent_id,
        "AGENT_NAME": request.name,
        "HOME": os.path.realpath(home.home),
        "PATH": f"{run}:{config.env.get('PATH') or _path(box)}",
    }
    if redis is None:
        environment["PRSM_SOCKET"] = f"{run}/{home.socket.name}"
    else:
        environment["PRSM_REDIS"] = redis
    return Start(
        argv=config.argv_of(request.model),
        cwd=request.cwd,
        environment=environment,
        folder=Path(config.protocols or Path(workspace) / ".prism" / "protocols").absolute(),
        box=box,
    )


def _path(box: Box | None) -> str:
    return os.environ.get("PATH", PATH) if box is None else PATH


def _box(config: ProgramConfig, wanted: Box, home: Home) -> Box:
    """Return the box: what the section says, and where it says nothing what the engine's does."""
    mounts = {RUN: os.path.realpath(home.run), **config.mounts}
    if config.redis is not None and config.redis.startswith("unix:"):
        folder = str(config.socket_of_redis.parent)
        mounts[folder] = os.path.realpath(folder)
    return Box(
        memory=config.memory or wanted.memory,
        cpus=config.cpus or wanted.cpus,
        pids=config.pids or wanted.pids,
        network=config.network or wanted.network,
        mounts={**wanted.mounts, **mounts},
        writable=(*wanted.writable, os.path.realpath(home.home)),
    )
