-- From version 7 to 8: the hash of a call's arguments is made of them when somebody asks for it.

ALTER TABLE tool_calls DROP COLUMN arguments_hash;
