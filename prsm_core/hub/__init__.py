"""Many sessions: those that this process runs, and a door to those of others.

local     LocalHub: it opens sessions, reaches them, and passes on what is to be done with one
errands   what a hub has others do, since it starts no process and deletes nothing by itself
"""

from prsm_core.hub.errands import Errands
from prsm_core.hub.local import LocalHub, open_hub

__all__ = ["Errands", "LocalHub", "open_hub"]
