-- From version 2 to 3: what calls have done, and how a run is gone on with.

ALTER TABLE meta ADD COLUMN name TEXT;                          -- by a person; NULL: by its task
ALTER TABLE runs ADD COLUMN options TEXT;                       -- JSON; NULL: not known
ALTER TABLE runs ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1;   -- one more with each resume

CREATE TABLE effects (           -- what a call has done, so that it does it once
  turn_id TEXT NOT NULL REFERENCES turns,
  call_id TEXT NOT NULL,
  name    TEXT NOT NULL,
  ref     TEXT,                  -- what it made: a message, an agent, a request
  data    TEXT,
  PRIMARY KEY (turn_id, call_id, name)
) STRICT;
