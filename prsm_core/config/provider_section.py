"""A provider's section of the configuration: what the engine and all providers share."""

# Annotations are values here, not texts: msgspec would have to evaluate each of these.
from collections.abc import Mapping
from typing import Any

from msgspec import field, json
from msgspec.structs import replace

from prsm_core.config.values import Section, Text, VariableName, Words


class AuthProfile(Section, frozen=True, kw_only=True):
    """One of several logins of a provider, taken in turn when another one is exhausted.

    Attributes:
        name: What the profile is called in messages.
        env: Variable that the vendor's program reads: variable that holds the value.
        home: Home directory that holds the vendor's login.
    """

    name: Text
    env: Mapping[VariableName, VariableName] = field(default_factory=dict)
    home: Text | None = None

    def __post_init__(self) -> None:
        """Refuse a profile that says nothing of a login."""
        if not self.env and self.home is None:
            raise ValueError("needs env or home")


class ProviderSettings(Section, frozen=True, kw_only=True, omit_defaults=True):
    """A provider's section: what all providers share, and keys of the plugin's own.

    Attributes:
        kind: The installed provider that the section is of, where its own name is none.
        command: The vendor's program with its first arguments, instead of the default.
        base_url: Where the vendor's API is found.
        api_key_env: Name of the environment variable that holds the API key.
        env: Variables added to the vendor program's environment.
        models: Ids of the models that may be used.
        profiles: Logins, in order of preference.
        own: Keys of the plugin's own, as they were written.
    """

    kind: Text | None = None
    command: Words | None = None
    base_url: Text | None = None
    api_key_env: VariableName | None = None
    env: Mapping[VariableName, str] = field(default_factory=dict)
    models: tuple[Text, ...] = ()
    profiles: tuple[AuthProfile, ...] = ()
    own: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def expand(cls, value: Any) -> Any:
        """Put the plugin's own keys, which stand beside the others, into `own`."""
        if not isinstance(value, Mapping):
            return value
        shared = {key: value[key] for key in _SHARED if key in value}
        return {**shared, "own": {key: item for key, item in value.items() if key not in shared}}

    def as_written(self) -> dict[str, Any]:
        """Return what is set as plain JSON values, with the plugin's own keys beside the others."""
        return {**json.decode(json.encode(replace(self, own={}))), **self.own}


_SHARED = tuple(key for key in ProviderSettings.__struct_fields__ if key != "own")
