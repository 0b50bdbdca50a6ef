"""What `frontends.tui` of the configuration may hold."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class TuiSettings(BaseModel):
    """The section `frontends.tui`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
