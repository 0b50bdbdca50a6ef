"""Text for terminals was here; it is in `prsm_core.kit` now, where plugins may have it."""

from prsm_core.deprecation import forwards

__getattr__ = forwards(
    __name__,
    {"one_line": "prsm_core.kit.text:first_line"},
    to="prsm_core.kit.text",
    goes_in="0.2",
)
