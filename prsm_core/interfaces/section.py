"""What was here is in the kit; imports from here still work."""

from __future__ import annotations

from importlib import import_module


def __getattr__(name: str) -> object:
    return getattr(import_module("prsm_core.kit.section"), name)
