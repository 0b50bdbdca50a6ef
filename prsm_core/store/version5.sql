-- From version 4 to 5: what changed in files, whose it is, and what was decided about it.

CREATE TABLE file_changes (
  session_id TEXT NOT NULL,
  id         TEXT NOT NULL,
  scan       TEXT NOT NULL,      -- the look that found it
  path       TEXT NOT NULL,      -- from the top of the folder; bytes that are no UTF-8 as \xNN
  root       TEXT NOT NULL,      -- the repository in the folder that it is of
  folder     TEXT NOT NULL,
  kind       TEXT NOT NULL,      -- added | modified | deleted
  old_mode   TEXT,
  new_mode   TEXT,
  "before"   TEXT,               -- id of the content, in the shadow; '': it is not kept
  "after"    TEXT,
  added      INTEGER,            -- lines; NULL: not known
  removed    INTEGER,
  how        TEXT NOT NULL,      -- named | shared | sole | region | possible | outside
  agent_id   TEXT,               -- the likeliest; NULL: a person, or another program
  call_id    TEXT,
  turn_id    TEXT,
  authors    TEXT NOT NULL,      -- all who may have made it: agent, call, turn of each
  beside     TEXT NOT NULL,      -- agents on the same file, '' for outside: a conflict
  note       TEXT NOT NULL,
  found_at   REAL NOT NULL,
  state      TEXT NOT NULL,      -- pending | accepted | rejected | unmerged
  why        TEXT,
  decided_at REAL,
  began      INTEGER NOT NULL,
  PRIMARY KEY (session_id, id)
) STRICT;
