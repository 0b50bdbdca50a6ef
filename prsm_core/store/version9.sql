-- From version 8 to 9: what a tool has answered stands with its call, and in no message.

ALTER TABLE messages DROP COLUMN tool_call_id;

-- A message that was read, and is unread again since nobody acted on it.

ALTER TABLE inbox_past ADD COLUMN ended INTEGER;      -- read by then; NULL: it was not
ALTER TABLE inbox_past ADD COLUMN consumed_by TEXT;
CREATE INDEX inbox_past_read ON inbox_past (ended) WHERE ended IS NOT NULL;

DROP TRIGGER inbox_change;
CREATE TRIGGER inbox_change AFTER UPDATE OF incarnation, ended ON inbox
WHEN OLD.incarnation <> NEW.incarnation OR (OLD.ended IS NOT NULL AND NEW.ended IS NULL) BEGIN
  INSERT INTO inbox_past VALUES (OLD.message_id, (SELECT max(position) FROM steps),
    OLD.incarnation, OLD.ended, OLD.consumed_by) ON CONFLICT DO NOTHING;
END;
