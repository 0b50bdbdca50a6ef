-- From version 8 to 9: what a tool has answered stands with its call, and in no message.

ALTER TABLE messages DROP COLUMN tool_call_id;
