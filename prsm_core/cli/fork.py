"""`prsm fork`: make a session that goes on from a point of another one."""

from __future__ import annotations

from prsm_core.cli.sessions.commands import fork

__all__ = ["fork"]
