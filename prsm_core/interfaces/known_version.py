"""What was here is in the kit; imports from here work for one minor version more."""

from __future__ import annotations

from prsm_core.deprecation import forwards

__getattr__ = forwards(__name__, to="prsm_core.kit.known_version", goes_in="0.2")
