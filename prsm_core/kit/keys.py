"""Which key a vendor's program is given: that of a variable which the configuration names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prsm_core.errors import ProviderNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Mapping


def find_key(variable: str | None, *places: Mapping[str, str]) -> str | None:
    """Return the key that a variable holds; None if it is not set, blank, or not named.

    Args:
        variable: Its name, the setting `api_key_env`.
        places: Where to look, in order: the `env` of the section, the environment.
    """
    if variable is None:
        return None
    return next((key for place in places if (key := place.get(variable))), None)


def require_key(variable: str, *places: Mapping[str, str]) -> str:
    """Return the key as `find_key` does; raise ProviderNotAvailableError where there is none."""
    key = find_key(variable, *places)
    if key is None:
        raise ProviderNotAvailableError(
            f"the environment variable {variable} is not set",
            hint=f"set {variable} to the API key, or change `api_key_env`",
        )
    return key
