"""The journal: what happens is committed to the ledger, told to readers, and read again."""
