"""Why something that is asked for by name may not be there: the plugins that are not used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from prsm_core.domain.record import Record
from prsm_core.plugins.records import SWITCHED_OFF, PluginRecord, not_active

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prsm_core.errors import PluginError


class Absent(Record, frozen=True, kw_only=True):
    """Why records of one kind may be missing.

    `owners` are unused plugins by the names of their records, or by their own name if they could
    not say what they have. `lost` are all quarantined ones.
    """

    word: str = "provider"
    owners: Mapping[str, PluginRecord] = field(default_factory=dict)
    lost: tuple[PluginRecord, ...] = ()
    switched_off: bool = False

    def why(self, name: str) -> PluginError | None:
        """Return which plugin has this record, why it is not used and what to do, if one has."""
        owner = self.owners.get(name)
        return None if owner is None else not_active(owner, self.word, name)

    @property
    def hint(self) -> str:
        """Which plugins may have a name that none is known to have, as the end of a hint."""
        off = f"; {SWITCHED_OFF}" if self.switched_off else ""
        silent = [f"; plugin {one.name} ({one}) is {one.state}: {one.error}" for one in self.lost]
        return "".join((off, *silent)) + ("; `prsm doctor` tells what to do" if silent else "")


PRESENT = Absent()  # nothing was set aside
