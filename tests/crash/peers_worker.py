"""`worker.py`, with tools by which agents write to each other, as a plugin would add them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from prsm_testing.sim.world import PeerTools

import prsm_core.app
from prsm_core.engine.engine import OrchestrationEngine

tools, begin = PeerTools(), OrchestrationEngine.__init__


def with_mail(engine: OrchestrationEngine, *given: Any, **named: Any) -> None:
    begin(engine, *given, **named)
    tools.mail = engine.peers


if __name__ == "__main__":
    setattr(OrchestrationEngine, "__init__", with_mail)  # noqa: B010 - with other types
    setattr(prsm_core.app._Root, "_tools", lambda *_: tools.table())  # noqa: B010
    runpy.run_path(str(Path(__file__).with_name("worker.py")), run_name="__main__")
