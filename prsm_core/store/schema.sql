-- The ledger, version 1. INTEGER times are Unix milliseconds, REAL times Unix seconds; lists and
-- objects are JSON text; NULL is "unknown", never zero.
--
-- Each commit has a number, its position. `began` and `ended` are the positions of the commits by
-- which a fact began and ended; what changes more than once is kept as it was before, in a table
-- `…_past`: a row says what held until, but not in, the commit `until`. So a session can be read as
-- it was after any commit. The positions of a copied fork's shared commits are 0 and less: they
-- have an order, but the session cannot be read as it was then.

-- What is alive ---------------------------------------------------------------------------------

CREATE TABLE meta (              -- one row a session: what a person resumes
  session_id  TEXT PRIMARY KEY,
  task        TEXT NOT NULL,     -- of its first run
  workspace   TEXT NOT NULL,
  created_at  REAL NOT NULL,
  name        TEXT,              -- by a person; NULL: by its task
  came        INTEGER NOT NULL DEFAULT 0, -- by which commit; or came back by
  aside       INTEGER            -- by which commit all that was said was taken back
) STRICT;

CREATE TABLE engines (           -- processes that owned a run; pid alone is reused by the system
  engine_id   INTEGER PRIMARY KEY,
  pid         INTEGER NOT NULL,
  start       ANY NOT NULL,      -- start time of the process as its platform tells it
  boot_id     TEXT NOT NULL,
  UNIQUE (boot_id, pid, start)
) STRICT;

CREATE TABLE runs (
  run_id      TEXT PRIMARY KEY,
  session_id  TEXT NOT NULL REFERENCES meta,
  engine_id   INTEGER REFERENCES engines,
  task        TEXT NOT NULL,
  workspace   TEXT NOT NULL,
  status      TEXT NOT NULL,     -- running | completed | failed | killed | interrupted
  outcome     TEXT,              -- what run_finished said
  started_at  REAL NOT NULL,
  finished_at REAL,
  options     TEXT,              -- JSON; NULL: not known
  epoch       INTEGER NOT NULL DEFAULT 1, -- one more with each resume
  began       INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_of_session ON runs (session_id);

CREATE TABLE agents (            -- small, because every state change rewrites the row
  agent_id     TEXT PRIMARY KEY,
  session_id   TEXT NOT NULL,
  run_id       TEXT NOT NULL,
  name         TEXT NOT NULL,
  parent_id    TEXT REFERENCES agents,
  depth        INTEGER NOT NULL,
  role         TEXT NOT NULL,
  provider     TEXT NOT NULL,
  model        TEXT NOT NULL,
  state        TEXT NOT NULL,
  incarnation  INTEGER NOT NULL, -- the one fence: older steps and messages are refused
  waiting_on   TEXT,
  next_turn    INTEGER NOT NULL DEFAULT 1,
  resume_token TEXT,
  result       TEXT,             -- final when the state is terminal, else of a finishing agent
  created_at   REAL NOT NULL,
  ended_at     REAL,
  notes        TEXT,             -- JSON; NULL: all as usual
  began        INTEGER NOT NULL,
  UNIQUE (session_id, name)
) STRICT;

CREATE TABLE agent_specs (       -- the bulky part of an agent, which seldom changes
  agent_id         TEXT PRIMARY KEY REFERENCES agents,
  prompt           TEXT NOT NULL,
  system_prompt    TEXT NOT NULL,
  cwd              TEXT NOT NULL,
  mode             TEXT NOT NULL,
  tools            TEXT NOT NULL,
  grant_tools      TEXT NOT NULL,
  grant_mode       TEXT NOT NULL,
  reasoning_effort TEXT,
  mcp_servers      TEXT NOT NULL,
  grant_limits     TEXT,         -- models, depth and budget; NULL: no limit
  labels           TEXT,         -- JSON, texts by name; NULL: nothing is said
  continues        TEXT          -- an agent; its events before the birth
) STRICT;

CREATE TABLE inbox (
  position       INTEGER PRIMARY KEY, -- order of commit
  message_id     TEXT NOT NULL UNIQUE,
  session_id     TEXT NOT NULL,
  type           TEXT NOT NULL,
  source         TEXT,                -- NULL: a person
  target         TEXT NOT NULL REFERENCES agents,
  incarnation    INTEGER NOT NULL,    -- of the target
  correlation_id TEXT,
  payload        TEXT NOT NULL,
  created_at     REAL NOT NULL,
  consumed_by    TEXT,                -- call, turn or step; not a cursor: receives are selective
  began          INTEGER NOT NULL,
  ended          INTEGER              -- consumed
) STRICT;
CREATE INDEX inbox_of_target ON inbox (target, ended);

CREATE TABLE requests (          -- permission requests and questions to a person
  request_id  TEXT PRIMARY KEY,
  session_id  TEXT NOT NULL,
  agent_id    TEXT NOT NULL REFERENCES agents,
  kind        TEXT NOT NULL,
  payload     TEXT NOT NULL,
  opened_at   REAL NOT NULL,
  state       TEXT NOT NULL DEFAULT 'open', -- open | resolved, changed by compare-and-set
  answer      TEXT,
  resolved_by TEXT,
  began       INTEGER NOT NULL,
  ended       INTEGER            -- resolved
) STRICT;
CREATE INDEX requests_of_session ON requests (session_id, ended);

CREATE TABLE grants (            -- what "always" allowed: an agent and its subtree
  grant_id    INTEGER PRIMARY KEY,
  session_id  TEXT NOT NULL,
  agent_id    TEXT,
  data        TEXT NOT NULL,
  created_at  REAL NOT NULL,
  began       INTEGER NOT NULL
) STRICT;
CREATE INDEX grants_of_session ON grants (session_id);

-- What happened ---------------------------------------------------------------------------------

CREATE TABLE turns (
  id                  TEXT PRIMARY KEY,
  parent_turn_id      TEXT REFERENCES turns,
  turn_type           TEXT NOT NULL CHECK (turn_type IN ('normal', 'compaction')),
  status              TEXT NOT NULL CHECK (status IN ('running', 'completed', 'failed', 'aborted')),
  started_at          INTEGER NOT NULL,
  completed_at        INTEGER,
  model               TEXT NOT NULL,
  provider            TEXT NOT NULL,
  role                TEXT NOT NULL,
  toolset_name        TEXT NOT NULL,
  tools_available     TEXT NOT NULL,
  permissions_granted TEXT NOT NULL,
  permissions_used    TEXT NOT NULL DEFAULT '[]',
  input_tokens        INTEGER,
  output_tokens       INTEGER,
  cached_input_tokens INTEGER,
  cache_write_tokens  INTEGER,
  reasoning_tokens    INTEGER,
  total_tokens        INTEGER,
  query_message_ids   TEXT NOT NULL DEFAULT '[]',
  response_message_id TEXT,
  has_children        INTEGER NOT NULL DEFAULT 0,
  tool_call_count     INTEGER NOT NULL DEFAULT 0,
  source_event_id     TEXT,
  workspace_path      TEXT NOT NULL,
  agent_id            TEXT NOT NULL REFERENCES agents,
  turn_no             INTEGER NOT NULL,
  stop_reason         TEXT,
  error               TEXT,
  cost_usd            REAL,
  duration_ms         INTEGER,
  closed_by           TEXT,      -- the step that closed it, so that closing again changes nothing
  usage_provenance    TEXT,      -- of a closed turn; see Provenance
  cost_provenance     TEXT,
  began               INTEGER NOT NULL,
  ended               INTEGER,   -- closed
  UNIQUE (agent_id, turn_no)
) STRICT;

CREATE TABLE messages (
  turn_id      TEXT NOT NULL REFERENCES turns,
  id           TEXT NOT NULL,
  role         TEXT NOT NULL,
  content      TEXT NOT NULL,
  sequence     INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  thinking     TEXT,
  context_json TEXT,             -- of user and system messages: where the turn was assembled
  PRIMARY KEY (turn_id, id)
) STRICT;

CREATE TABLE tool_calls (
  turn_id               TEXT NOT NULL REFERENCES turns,
  id                    TEXT NOT NULL, -- vendors use an id again in a later turn
  message_id            TEXT,
  tool_name             TEXT NOT NULL,
  params                TEXT NOT NULL,
  result                TEXT,          -- of an orchestration call: the answer, failed or not
  error                 TEXT,
  status                TEXT NOT NULL,
  started_at            INTEGER NOT NULL,
  completed_at          INTEGER,
  sequence              INTEGER NOT NULL,
  orchestration         INTEGER NOT NULL,
  spawned_session_label TEXT,
  PRIMARY KEY (turn_id, id)
) STRICT;

CREATE TABLE effects (           -- what a call has done, so that it does it once
  turn_id TEXT NOT NULL REFERENCES turns,
  call_id TEXT NOT NULL,
  name    TEXT NOT NULL,
  ref     TEXT,                  -- what it made: a message, an agent, a request
  data    TEXT,
  began   INTEGER NOT NULL,
  PRIMARY KEY (turn_id, call_id, name)
) STRICT;

CREATE TABLE compactions (
  turn_id                     TEXT PRIMARY KEY REFERENCES turns,
  summary                     TEXT NOT NULL,
  summarized_through_turn_id  TEXT NOT NULL,
  first_kept_turn_id          TEXT NOT NULL,
  turns_summarized            INTEGER NOT NULL,
  model                       TEXT NOT NULL,
  provider                    TEXT NOT NULL,
  tokens_before               INTEGER NOT NULL,
  tokens_after                INTEGER NOT NULL,
  summary_tokens              INTEGER NOT NULL,
  summarization_input_tokens  INTEGER NOT NULL,
  summarization_output_tokens INTEGER NOT NULL,
  duration_ms                 INTEGER NOT NULL,
  "trigger"                   TEXT NOT NULL
) STRICT;

-- A stored ancestry list would grow with every turn; parent, depth and a jump pointer do not. The
-- jump goes to an ancestor such that any ancestor is O(log depth) jumps and parents away.
CREATE TABLE threads (
  turn_id        TEXT PRIMARY KEY REFERENCES turns,
  parent_turn_id TEXT,
  depth          INTEGER NOT NULL,
  skip_turn_id   TEXT NOT NULL,
  skip_depth     INTEGER NOT NULL,
  total_tokens   INTEGER
) STRICT, WITHOUT ROWID;

CREATE VIEW thread_ancestry AS
SELECT head.turn_id, head.total_tokens, (
  WITH RECURSIVE line (turn_id, parent_turn_id, depth) AS (
    SELECT head.turn_id, head.parent_turn_id, head.depth
    UNION ALL
    SELECT up.turn_id, up.parent_turn_id, up.depth
    FROM line JOIN threads AS up ON up.turn_id = line.parent_turn_id
  )
  SELECT json_group_array(turn_id) FROM (SELECT turn_id FROM line ORDER BY depth)
) AS ancestry
FROM threads AS head;

CREATE TABLE sessions (          -- one row an agent, labelled <session>/<alias>
  label                TEXT PRIMARY KEY,
  thread_id            TEXT REFERENCES turns, -- the head: its newest closed turn
  is_subagent          INTEGER NOT NULL,
  parent_session_label TEXT REFERENCES sessions,
  session_id           TEXT NOT NULL,
  agent_id             TEXT NOT NULL UNIQUE REFERENCES agents,
  created_at           INTEGER NOT NULL,
  updated_at           INTEGER NOT NULL
) STRICT;

CREATE TABLE session_history (
  session_label TEXT NOT NULL REFERENCES sessions,
  thread_id     TEXT NOT NULL REFERENCES turns,
  changed_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX session_history_of_label ON session_history (session_label);

-- What happened to files ---------------------------------------------------------------------------

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

-- A change of a file is in each session that knows it: in the one that found it, and in its forks.
-- So it has the same id in all of them, and what is decided in one of them is decided.
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
CREATE INDEX file_changes_by_id ON file_changes (id);

-- What observers see ----------------------------------------------------------------------------

CREATE TABLE events (
  session_id TEXT NOT NULL,
  seq        INTEGER NOT NULL,   -- 1, 2 … without a gap
  ts         REAL NOT NULL,
  run_id     TEXT,
  agent_id   TEXT,
  type       TEXT NOT NULL,
  data       TEXT NOT NULL,
  position   INTEGER NOT NULL,
  PRIMARY KEY (session_id, seq)
) STRICT;
CREATE INDEX events_of_agent ON events (session_id, agent_id, seq);
CREATE INDEX events_of_tools ON events (session_id, agent_id, seq)
  WHERE type = 'tool_call_started';

CREATE TABLE steps (             -- the commits; the events of each are contiguous
  position    INTEGER PRIMARY KEY, -- 1, 2 … without a gap
  step_id     TEXT,              -- NULL: events that no step has caused
  session_id  TEXT NOT NULL,
  kind        TEXT NOT NULL,
  first_seq   INTEGER NOT NULL,  -- of its first event, or of the next one if it has none
  event_count INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX steps_by_id ON steps (step_id) WHERE step_id IS NOT NULL;
CREATE INDEX steps_untold ON steps (session_id) WHERE event_count = 0;

-- What was, and what a fork shares -------------------------------------------------------------

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
  mode             TEXT NOT NULL,
  grant_mode       TEXT NOT NULL,
  reasoning_effort TEXT,
  labels           TEXT,
  PRIMARY KEY (agent_id, until)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER agent_specs_change
AFTER UPDATE OF prompt, mode, grant_mode, reasoning_effort, labels ON agent_specs
BEGIN
  INSERT INTO agent_specs_past VALUES (OLD.agent_id, (SELECT max(position) FROM steps),
    OLD.prompt, OLD.mode, OLD.grant_mode, OLD.reasoning_effort, OLD.labels) ON CONFLICT DO NOTHING;
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

CREATE TABLE inbox_past (        -- of messages that were handed on to a next life, or unread again
  message_id  TEXT NOT NULL,
  until       INTEGER NOT NULL,
  incarnation INTEGER NOT NULL,
  ended       INTEGER,           -- read by then; NULL: it was not
  consumed_by TEXT,
  PRIMARY KEY (message_id, until)
) STRICT, WITHOUT ROWID;
CREATE INDEX inbox_past_read ON inbox_past (ended) WHERE ended IS NOT NULL;
CREATE TRIGGER inbox_change AFTER UPDATE OF incarnation, ended ON inbox
WHEN OLD.incarnation <> NEW.incarnation OR (OLD.ended IS NOT NULL AND NEW.ended IS NULL) BEGIN
  INSERT INTO inbox_past VALUES (OLD.message_id, (SELECT max(position) FROM steps),
    OLD.incarnation, OLD.ended, OLD.consumed_by) ON CONFLICT DO NOTHING;
END;

CREATE TABLE file_changes_past (
  session_id TEXT NOT NULL,
  id         TEXT NOT NULL,
  until      INTEGER NOT NULL,
  state      TEXT NOT NULL,
  why        TEXT,
  decided_at REAL,
  PRIMARY KEY (session_id, id, until)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER file_changes_change AFTER UPDATE OF state, why, decided_at ON file_changes
WHEN OLD.began < (SELECT max(position) FROM steps) BEGIN
  INSERT INTO file_changes_past VALUES (OLD.session_id, OLD.id,
    (SELECT max(position) FROM steps), OLD.state, OLD.why, OLD.decided_at)
    ON CONFLICT DO NOTHING;
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
