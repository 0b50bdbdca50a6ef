"""What was here is in the kit; imports from here work for one minor version more."""

from __future__ import annotations

from prsm_core.deprecation import forwards

_PUBLIC = (
    "Parser",
    "parse_argv",
    "parse_choice",
    "parse_environment",
    "parse_flag",
    "parse_models",
    "parse_text",
    "parse_url",
    "parse_words",
    "read_section",
)

__getattr__ = forwards(
    __name__,
    {name: f"prsm_core.kit:{name}" for name in _PUBLIC},
    to="prsm_core.kit.section",
    goes_in="0.2",
)
