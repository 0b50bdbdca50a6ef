-- From version 5 to 6: what was decided about changes when, and which session is the newest.
--
-- A change of a file is in each session that knows it: in the one that found it, and in its forks.
-- So it has the same id in all of them, and what is decided in one of them is decided.
-- A session that a person left can be the newest again; one can be set aside until its next run.

ALTER TABLE meta ADD COLUMN came INTEGER NOT NULL DEFAULT 0;  -- by which commit; or came back by
UPDATE meta SET came = rowid - 1 - (SELECT max(rowid) FROM meta);  -- before all that come
ALTER TABLE meta ADD COLUMN aside INTEGER;  -- by which commit all that was said was taken back

CREATE INDEX file_changes_by_id ON file_changes (id);

CREATE TABLE file_changes_past (
  session_id TEXT NOT NULL,
  id         TEXT NOT NULL,
  until      INTEGER NOT NULL,
  state      TEXT NOT NULL,
  why        TEXT,
  decided_at REAL,
  PRIMARY KEY (session_id, id, until)
) STRICT, WITHOUT ROWID;
INSERT INTO file_changes_past
  SELECT told.session_id, told.id, told.position,
    coalesce(lag(told.state) OVER line, 'pending'), lag(told.why) OVER line,
    lag(told.ts) OVER line
  FROM (
    SELECT e.session_id, e.seq, e.position, e.ts, json_extract(one.value, '$.change') AS id,
      json_extract(one.value, '$.state') AS state, json_extract(one.value, '$.why') AS why
    FROM events AS e, json_each(e.data, '$.changes') AS one
    WHERE e.type = 'changes_decided' AND e.position IS NOT NULL
  ) AS told
  JOIN file_changes AS c ON c.session_id = told.session_id AND c.id = told.id
  WINDOW line AS (PARTITION BY told.session_id, told.id ORDER BY told.seq)
  ON CONFLICT DO NOTHING;
CREATE TRIGGER file_changes_change AFTER UPDATE OF state, why, decided_at ON file_changes
WHEN OLD.began < (SELECT max(position) FROM steps) BEGIN
  INSERT INTO file_changes_past VALUES (OLD.session_id, OLD.id,
    (SELECT max(position) FROM steps), OLD.state, OLD.why, OLD.decided_at)
    ON CONFLICT DO NOTHING;
END;
