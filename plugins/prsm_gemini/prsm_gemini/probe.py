"""Which versions of Gemini CLI this plugin works with, and what it cannot enforce."""

from __future__ import annotations

from prsm_core import VersionRange

PACKAGE = "@google/gemini-cli"
VERSIONS = VersionRange(
    program="gemini",
    oldest=(0, 61, 0),
    tested_from=(0, 61, 0),
    below=(0, 62, 0),
    install=f"npm install -g {PACKAGE}",
    package=PACKAGE,
)
_MENTIONS = "files that the workspace's GEMINI.md mentions are read, unasked"
HEADLESS_GAPS = (
    "the system settings of Gemini CLI can switch its hooks off: a turn is then stopped, but only "
    "once its model has begun to speak",
    _MENTIONS,
)
ACP_GAPS = (
    "what is asked of a search, or of a tool of another MCP server, does not tell its arguments",
    _MENTIONS,
)
