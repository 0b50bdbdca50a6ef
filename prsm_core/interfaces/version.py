"""What was here is in the kit; imports from here work for one minor version more."""

from __future__ import annotations

from prsm_core.deprecation import forwards

_PUBLIC = ("VersionRange", "numbers_of", "printed_version", "version_in")

__getattr__ = forwards(
    __name__,
    {name: f"prsm_core.kit:{name}" for name in _PUBLIC},
    to="prsm_core.kit.version",
    goes_in="0.2",
)
