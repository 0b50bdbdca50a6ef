"""Many sessions: those that this process runs, and a door to those of others.

local     LocalHub: it opens sessions, reaches them, and passes on what is to be done with one
owned     a session of this process, in the task that runs it
ledgers   where sessions lie, and what is read and changed there without owning one
errands   what a hub has others do, since it starts no process and deletes nothing by itself
"""

from prsm_core.hub.errands import Errands
from prsm_core.hub.local import LocalHub, open_hub

__all__ = ["Errands", "LocalHub", "open_hub"]
