"""Which versions of Codex this plugin works with."""

from __future__ import annotations

from prsm_core import VersionRange

VERSIONS = VersionRange(
    program="codex",
    oldest=(0, 160, 0),
    tested_from=(0, 160, 0),
    below=(0, 175, 0),
    install="npm install -g @openai/codex",
)
