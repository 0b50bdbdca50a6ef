"""The SQLite ledger: one file, one writer thread, one transaction a step.

sqlite      SqliteStore, the public face      apply       a step, whole or not at all
connection  lock and pragmas of the file      migrations  versions of the schema
writer      groups of steps, at once or by its thread
codec       JSON                              inspection  a look that changes nothing
tables      rows as SQL                       event_log   the log, and what each step told
picture     a session as of one event           state       a session after any commit
open_turn   what the log tells of a turn
removal     a session is taken out, its disk space given back; what its texts cite
session_rows  which rows are a session's
copies      a session as JSON, and back; what a copy must be
agent_rows · readers read back what the rows of `domain.writes` have written.
"""

from prsm_core.store.codec import arguments_hash
from prsm_core.store.connection import StoreLimits
from prsm_core.store.sqlite import SqliteStore

__all__ = ["SqliteStore", "StoreLimits", "arguments_hash"]
