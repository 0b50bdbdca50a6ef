"""The providers of this project: their names are known also where they are not installed."""

from __future__ import annotations

# Nobody is told to install what a misspelt name happens to lead to.
PACKAGED = frozenset({"acp", "alibaba", "claude", "codex", "gemini", "minimax"})
