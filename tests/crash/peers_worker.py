"""`worker.py`, with tools by which agents write to each other, as a plugin would add them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import prsm_core.app
from prsm_core.engine.engine import OrchestrationEngine
from prsm_core.sim.letters import PeerTools

tools, begin = PeerTools(), OrchestrationEngine.__init__


def with_mail(engine: OrchestrationEngine, *given: Any, **named: Any) -> None:
    begin(engine, *given, **named)
    tools.mail = engine.peers


if __name__ == "__main__":
    OrchestrationEngine.__init__ = with_mail  # type: ignore[method-assign]
    prsm_core.app._tools = lambda _external: tools.table()
    runpy.run_path(str(Path(__file__).with_name("worker.py")), run_name="__main__")
