"""Many sessions: those that this process runs, and a door to those of others.

local     LocalHub: it opens sessions, reaches them, and passes on what is to be done with one
"""

from prsm_core.hub.local import Errands, LocalHub, open_hub

__all__ = ["Errands", "LocalHub", "open_hub"]
