"""What was here is in the kit; imports from here work for one minor version more."""

from __future__ import annotations

from prsm_core.deprecation import forwards

_PUBLIC = ("HOOK_COMMAND", "HookAsker", "HookGate")

__getattr__ = forwards(
    __name__,
    {name: f"prsm_core.kit:{name}" for name in _PUBLIC},
    to="prsm_core.kit.hook_gate",
    goes_in="0.2",
)
