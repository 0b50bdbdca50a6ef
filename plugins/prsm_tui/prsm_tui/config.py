"""The section `frontends.tui` of the configuration, as it is checked and shown by `prsm config`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class TuiSettings(BaseModel):
    """What a person may set; nothing else is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    linear: bool = Field(
        default=False,
        description="Write line by line and draw nothing: for screen readers. PRSM_LINEAR=1 or 0 "
        "in the environment stands above it.",
    )
