"""What `frontends.tui` of the configuration may hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from prsm_tui.keys import Keymap


class TuiSettings(BaseModel):
    """The section `frontends.tui`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keys: Mapping[str, str | tuple[str, ...]] = Field(
        default_factory=dict,
        description="Keys of one's own, by what they do: a key, or several; [] for none.",
    )
    linear: bool = Field(
        default=False,
        description="Write line by line and draw nothing: for screen readers. PRSM_LINEAR=1 or 0 "
        "in the environment stands above it.",
    )
    notify: bool = Field(
        default=True,
        description="Ring, and tell the terminal, where something waits or a run ends while its "
        "window is not in front.",
    )
    theme: Literal["dark", "light", "high-contrast"] = Field(
        default="dark", description="How the screen is coloured."
    )

    @field_validator("keys")
    @classmethod
    def _check_keys(
        cls, keys: Mapping[str, str | tuple[str, ...]]
    ) -> Mapping[str, str | tuple[str, ...]]:
        _ = Keymap(_as_lists(keys))
        return keys

    @property
    def keymap(self) -> Keymap:
        """The keys as they are set."""
        return Keymap(_as_lists(self.keys))


def _as_lists(keys: Mapping[str, str | tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    return {name: (key,) if isinstance(key, str) else key for name, key in keys.items()}
