"""The settings of boxes: whether the processes of agents run in them, and with which limits."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, StrictBool

from prsm_core.config.values import Count, Factor, Section, Text
from prsm_core.domain.boxes import Box

MIB = 2**20


class BoxSettings(Section):
    """The box that each agent's process runs in, of providers that can."""

    agents: StrictBool = Field(
        default=False,
        description="Whether agents run in boxes; docs/boxes.md says what is in one.",
    )
    memory_mib: Count | None = Field(
        default=None, description="Memory of one agent with all that it starts; null: no limit."
    )
    cpus: Factor | None = Field(
        default=None, description="Processors that one agent may keep busy; null: no limit."
    )
    pids: Count | None = Field(
        default=None, description="Processes and threads of one agent; null: no limit."
    )
    network: StrictBool = Field(
        default=True, description="Whether agents reach the network, which vendors' programs need."
    )
    mounts: Mapping[Text, Text] = Field(
        default_factory=dict,
        description="Path in the box: file or folder of the machine that is seen there, read-only.",
    )
    writable: tuple[Text, ...] = Field(
        default=(), description="Folders that an agent may write beside its own."
    )

    def to_box(self) -> Box | None:
        """Return the box of an agent, None where agents run in none."""
        if not self.agents:
            return None
        return Box(
            memory=None if self.memory_mib is None else self.memory_mib * MIB,
            cpus=self.cpus,
            pids=self.pids,
            network=self.network,
            mounts=self.mounts,
            writable=self.writable,
        )
