"""What a start of a program is given: its command line, its environment, and its box.

In a box it sees its own folder at /run/prsm and the protocols at /protocols, both read-only;
without one the same things lie where they lie.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core import SessionRequest
    from prsm_protocols.program.config import ProgramConfig
    from prsm_protocols.program.home import Home

RUN, PROTOCOLS = "/run/prsm", "/protocols"
PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a program is started; `environment` lacks what each start has of its own."""

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    protocols: str  # the folder, as it sees it
    options: Mapping[str, Any] = field(default_factory=dict)  # of `start_process`


def plan_start(
    config: ProgramConfig, request: SessionRequest, home: Home, run: str, redis: str | None
) -> Start:
    """Return how an agent's program is started.

    `run` is where it finds aism without a box, `redis` the URL by which it asks; None: its socket. Raises ModelNotAvailableError for a
    model's name that stands for no program.
    """
    workspace = request.workspace or request.cwd
    folder = Path(config.protocols or Path(workspace) / ".prism" / "protocols").absolute()
    run, protocols = (RUN, PROTOCOLS) if config.box else (run, str(folder))
    environment = {
        **config.env,
        "AGENT_ID": request.agent_id,
        "AGENT_NAME": request.name,
        "HOME": str(home.home),
        "PATH": f"{run}:{config.env.get('PATH') or _path(config)}",
        "PRSM_PROTOCOLS": protocols,
        **(
            {"PRSM_SOCKET": f"{run}/{home.socket.name}"} if redis is None else {"PRSM_REDIS": redis}
        ),
    }
    options: dict[str, Any] = {}
    if config.box:
        options["box"] = _box(config, request, home, folder, redis)
    return Start(
        argv=config.argv_of(request.model),
        cwd=request.cwd,
        environment=environment,
        protocols=protocols,
        options=options,
    )


def _path(config: ProgramConfig) -> str:
    return PATH if config.box else os.environ.get("PATH", PATH)


def _box(
    config: ProgramConfig, request: SessionRequest, home: Home, folder: Path, redis: str | None
) -> Any:
    raise NotImplementedError
