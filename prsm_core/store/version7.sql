-- From version 6 to 7: what is said of agents, and whose conversation one began with.

ALTER TABLE agent_specs ADD COLUMN labels TEXT;       -- JSON, texts by name; NULL: nothing is said
ALTER TABLE agent_specs ADD COLUMN continues TEXT;    -- an agent; its events before the birth
ALTER TABLE agent_specs_past ADD COLUMN labels TEXT;

DROP TRIGGER agent_specs_change;
CREATE TRIGGER agent_specs_change AFTER UPDATE OF prompt, reasoning_effort, labels ON agent_specs
BEGIN
  INSERT INTO agent_specs_past VALUES (OLD.agent_id, (SELECT max(position) FROM steps),
    OLD.prompt, OLD.reasoning_effort, OLD.labels) ON CONFLICT DO NOTHING;
END;
