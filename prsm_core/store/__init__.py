"""The SQLite ledger: one file, one writer thread, one transaction a step.

sqlite      SqliteStore, the public face      apply       what each kind of step writes
connection  lock and pragmas of the file      migrations  versions of the schema
writer      the writer thread                 reader      the reading thread
doorbell    from that thread to the loop      known       what the writer need not ask again
tail        followers of the event log        limits      bounds of queue, waits, log
codec       JSON                              inspection  a look that changes nothing
agents · ledger · inbox · requests · runs · event_log own the tables of their names; agent_rows
reads agents back.
"""

from prsm_core.store.codec import arguments_hash
from prsm_core.store.limits import StoreLimits
from prsm_core.store.sqlite import SqliteStore

__all__ = ["SqliteStore", "StoreLimits", "arguments_hash"]
