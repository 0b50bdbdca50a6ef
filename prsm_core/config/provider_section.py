"""A provider's section of the configuration: what the engine and all providers share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from prsm_core.config.values import Section, Text, Values, VariableName, Words, none_is_empty


class AuthProfile(Section):
    """One of several logins of a provider, taken in turn when another one is exhausted."""

    name: Text = Field(description="What the profile is called in messages.")
    env: Mapping[VariableName, VariableName] = Field(
        default_factory=dict,
        description="Variable that the vendor's program reads: variable that holds the value.",
    )
    home: Text | None = Field(
        default=None, description="Home directory that holds the vendor's login."
    )

    @model_validator(mode="after")
    def _has_a_source(self) -> AuthProfile:
        if not self.env and self.home is None:
            raise ValueError("needs env or home")
        return self


class ProviderSettings(Values):
    """A provider's section: what all providers share, and keys of the plugin's own."""

    model_config = ConfigDict(extra="allow")

    kind: Text | None = Field(
        default=None,
        description="The installed provider that the section is of, where its own name is none.",
    )
    command: Words | None = Field(
        default=None,
        description="The vendor's program with its first arguments, instead of the default.",
    )
    base_url: Text | None = Field(default=None, description="Where the vendor's API is found.")
    api_key_env: VariableName | None = Field(
        default=None, description="Name of the environment variable that holds the API key."
    )
    env: Mapping[VariableName, str] = Field(
        default_factory=dict, description="Variables added to the vendor program's environment."
    )
    models: tuple[Text, ...] = Field(default=(), description="Ids of the models that may be used.")
    profiles: tuple[AuthProfile, ...] = Field(
        default=(), description="Logins, in order of preference."
    )


ProviderSection = Annotated[ProviderSettings, BeforeValidator(none_is_empty)]
