-- From version 3 to 4: the snapshots of files that were taken for a session.

CREATE TABLE snapshots (
  session_id    TEXT NOT NULL REFERENCES meta,
  snapshot_id   TEXT NOT NULL,   -- its content lies in git directories of PRSM's own
  last_commit   INTEGER NOT NULL, -- the session's newest before it; 0: there was none
  taken_at      REAL NOT NULL,
  kind          TEXT NOT NULL,   -- run | prompt | manual | safety | rescue
  folder        TEXT NOT NULL,
  tree          TEXT NOT NULL,
  staged        TEXT,            -- the tree of the staging area
  branch        TEXT,
  head          TEXT,
  agent_id      TEXT,            -- whom the prompt is for
  description   TEXT NOT NULL,
  bytes_skipped INTEGER NOT NULL,
  unquiet       TEXT NOT NULL,   -- JSON: who may have written meanwhile, and by what
  began         INTEGER NOT NULL,
  UNIQUE (session_id, snapshot_id, last_commit)
) STRICT;
