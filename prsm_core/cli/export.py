"""`prsm export`: write a session to a file."""

from __future__ import annotations

from prsm_core.cli.sessions.commands import export

__all__ = ["export"]
