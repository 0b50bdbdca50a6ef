-- From version 2 to 3: what calls have done, how a run is gone on with, what was when, and forks.
--
-- Each commit has a number, its position. `began` and `ended` are the positions of the commits by
-- which a fact began and ended; what changes more than once is kept as it was before, in a table
-- `…_past`: a row says what held until, but not in, the commit `until`. So a session can be read as
-- it was after any commit. What is older than this version has positions of 0 and less: it has an
-- order, but cannot be read as it was. Its `began` and `ended` stand for moments, in milliseconds
-- from -9e15 on.

ALTER TABLE meta ADD COLUMN name TEXT;                          -- by a person; NULL: by its task
ALTER TABLE runs ADD COLUMN options TEXT;                       -- JSON; NULL: not known
ALTER TABLE runs ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1;   -- one more with each resume
ALTER TABLE runs ADD COLUMN began INTEGER NOT NULL DEFAULT -9000000000000000;
ALTER TABLE agents ADD COLUMN notes TEXT;                       -- JSON; NULL: all as usual
ALTER TABLE agents ADD COLUMN began INTEGER NOT NULL DEFAULT -9000000000000000;
ALTER TABLE turns ADD COLUMN began INTEGER NOT NULL DEFAULT -9000000000000000;
ALTER TABLE turns ADD COLUMN ended INTEGER;                     -- closed
ALTER TABLE inbox ADD COLUMN began INTEGER NOT NULL DEFAULT -9000000000000000;
ALTER TABLE inbox ADD COLUMN ended INTEGER;                     -- consumed
ALTER TABLE requests ADD COLUMN began INTEGER NOT NULL DEFAULT -9000000000000000;
ALTER TABLE requests ADD COLUMN ended INTEGER;                  -- resolved
ALTER TABLE grants ADD COLUMN began INTEGER NOT NULL DEFAULT -9000000000000000;
ALTER TABLE events ADD COLUMN position INTEGER;                 -- NULL: older than this version

UPDATE runs SET began = began + CAST(started_at * 1000 AS INTEGER);
UPDATE turns SET began = began + started_at,
  ended = iif(closed_by IS NULL, NULL, began + coalesce(completed_at, started_at));
UPDATE inbox SET ended = began WHERE consumed_by IS NOT NULL;
UPDATE requests SET ended = began WHERE state <> 'open';

CREATE TABLE effects (           -- what a call has done, so that it does it once
  turn_id TEXT NOT NULL REFERENCES turns,
  call_id TEXT NOT NULL,
  name    TEXT NOT NULL,
  ref     TEXT,                  -- what it made: a message, an agent, a request
  data    TEXT,
  began   INTEGER NOT NULL,
  PRIMARY KEY (turn_id, call_id, name)
) STRICT;

ALTER TABLE steps RENAME TO older_steps;
CREATE TABLE steps (             -- the commits; the events of each are contiguous
  position    INTEGER PRIMARY KEY, -- 1, 2 … without a gap
  step_id     TEXT,              -- NULL: events that no step has caused
  session_id  TEXT NOT NULL,
  kind        TEXT NOT NULL,
  first_seq   INTEGER NOT NULL,  -- of its first event, or of the next one if it has none
  event_count INTEGER NOT NULL
) STRICT;
INSERT INTO steps
  SELECT row_number() OVER (ORDER BY session_id, first_seq) - (SELECT count(*) FROM older_steps),
    step_id, session_id, kind, first_seq, event_count
  FROM older_steps;
DROP TABLE older_steps;
CREATE UNIQUE INDEX steps_by_id ON steps (step_id) WHERE step_id IS NOT NULL;
CREATE INDEX steps_untold ON steps (session_id) WHERE event_count = 0;

DROP INDEX inbox_unconsumed;
CREATE INDEX inbox_of_target ON inbox (target, ended);
DROP INDEX requests_open;
CREATE INDEX requests_of_session ON requests (session_id, ended);

CREATE TABLE runs_past (
  run_id      TEXT NOT NULL,
  until       INTEGER NOT NULL,
  engine_id   INTEGER,
  status      TEXT NOT NULL,
  outcome     TEXT,
  finished_at REAL,
  epoch       INTEGER NOT NULL,
  options     TEXT,
  PRIMARY KEY (run_id, until)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER runs_change AFTER UPDATE OF
  engine_id, status, outcome, finished_at, epoch, options ON runs
WHEN OLD.began < (SELECT max(position) FROM steps) BEGIN
  INSERT INTO runs_past VALUES (OLD.run_id, (SELECT max(position) FROM steps), OLD.engine_id,
    OLD.status, OLD.outcome, OLD.finished_at, OLD.epoch, OLD.options) ON CONFLICT DO NOTHING;
END;

CREATE TABLE agents_past (
  agent_id     TEXT NOT NULL,
  until        INTEGER NOT NULL,
  provider     TEXT NOT NULL,
  model        TEXT NOT NULL,
  state        TEXT NOT NULL,
  incarnation  INTEGER NOT NULL,
  waiting_on   TEXT,
  resume_token TEXT,
  result       TEXT,
  ended_at     REAL,
  notes        TEXT,
  PRIMARY KEY (agent_id, until)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER agents_change AFTER UPDATE OF
  provider, model, state, incarnation, waiting_on, resume_token, result, ended_at, notes ON agents
WHEN OLD.began < (SELECT max(position) FROM steps) BEGIN
  INSERT INTO agents_past VALUES (OLD.agent_id, (SELECT max(position) FROM steps), OLD.provider,
    OLD.model, OLD.state, OLD.incarnation, OLD.waiting_on, OLD.resume_token, OLD.result,
    OLD.ended_at, OLD.notes) ON CONFLICT DO NOTHING;
END;

CREATE TABLE agent_specs_past (
  agent_id         TEXT NOT NULL,
  until            INTEGER NOT NULL,
  prompt           TEXT NOT NULL,
  reasoning_effort TEXT,
  PRIMARY KEY (agent_id, until)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER agent_specs_change AFTER UPDATE OF prompt, reasoning_effort ON agent_specs BEGIN
  INSERT INTO agent_specs_past VALUES (OLD.agent_id, (SELECT max(position) FROM steps),
    OLD.prompt, OLD.reasoning_effort) ON CONFLICT DO NOTHING;
END;

CREATE TABLE turns_past (        -- what a turn had used while it ran
  turn_id             TEXT NOT NULL,
  until               INTEGER NOT NULL,
  input_tokens        INTEGER,
  output_tokens       INTEGER,
  cached_input_tokens INTEGER,
  cache_write_tokens  INTEGER,
  reasoning_tokens    INTEGER,
  total_tokens        INTEGER,
  cost_usd            REAL,
  usage_provenance    TEXT,      -- NULL: nothing was told
  cost_provenance     TEXT,
  PRIMARY KEY (turn_id, until)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER turns_change AFTER UPDATE OF usage_provenance ON turns
WHEN OLD.usage_provenance IS NOT NULL OR NEW.ended IS NULL BEGIN
  INSERT INTO turns_past VALUES (OLD.id, (SELECT max(position) FROM steps), OLD.input_tokens,
    OLD.output_tokens, OLD.cached_input_tokens, OLD.cache_write_tokens, OLD.reasoning_tokens,
    OLD.total_tokens, OLD.cost_usd, OLD.usage_provenance, OLD.cost_provenance)
    ON CONFLICT DO NOTHING;
END;

CREATE TABLE inbox_past (        -- of messages that were handed on to a next life
  message_id  TEXT NOT NULL,
  until       INTEGER NOT NULL,
  incarnation INTEGER NOT NULL,
  PRIMARY KEY (message_id, until)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER inbox_change AFTER UPDATE OF incarnation ON inbox
WHEN OLD.incarnation <> NEW.incarnation BEGIN
  INSERT INTO inbox_past VALUES (OLD.message_id, (SELECT max(position) FROM steps),
    OLD.incarnation) ON CONFLICT DO NOTHING;
END;

-- A session that goes on from another, its origin, has no events, and no closed turns, of what was
-- before it: it shares those. What was open is its own, and everything in it has ids of its own.
CREATE TABLE forks (             -- sessions whose past another one shares; several for a fork's fork
  session_id TEXT NOT NULL REFERENCES meta,
  origin_id  TEXT NOT NULL,
  position   INTEGER NOT NULL,   -- the last commit of the origin that is shared
  seq        INTEGER NOT NULL,   -- its newest event by then; the fork's own come behind it
  PRIMARY KEY (session_id, origin_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX forks_of_origin ON forks (origin_id);

CREATE TABLE aliases (           -- ids of a fork, by what they were in its origins: models know them
  session_id TEXT NOT NULL,
  old_id     TEXT NOT NULL,
  new_id     TEXT NOT NULL,
  PRIMARY KEY (session_id, old_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX aliases_of_new ON aliases (new_id);

CREATE VIEW shared AS            -- the agents whose past an agent of a fork shares
SELECT n.new_id AS agent_id, n.session_id, o.agent_id AS of_id, f.origin_id,
  f.position AS until, f.seq
FROM aliases AS n
JOIN agents AS o ON o.agent_id = n.old_id
JOIN forks AS f ON f.session_id = n.session_id AND f.origin_id = o.session_id;

CREATE VIEW lives AS             -- each agent, and those whose past it shares up to a commit
SELECT agent_id, session_id, agent_id AS of_id, 9223372036854775807 AS until FROM agents
UNION ALL
SELECT agent_id, session_id, of_id, until FROM shared;
