PRAGMA application_id = 1347572557;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE agent_specs (       -- the bulky part of an agent; only a restart's prompt changes it
  agent_id         TEXT PRIMARY KEY REFERENCES agents,
  prompt           TEXT NOT NULL,
  system_prompt    TEXT NOT NULL,
  cwd              TEXT NOT NULL,
  mode             TEXT NOT NULL,
  tools            TEXT NOT NULL,
  grant_tools      TEXT NOT NULL,
  grant_mode       TEXT NOT NULL,
  reasoning_effort TEXT,
  mcp_servers      TEXT NOT NULL
, grant_limits TEXT) STRICT;
INSERT INTO "agent_specs" VALUES('s1-master','do it','you are an agent','/work','default','["Grep","Read"]','["Edit","Grep","Read"]','default',NULL,'{}',NULL);
INSERT INTO "agent_specs" VALUES('s1-w1','do it','you are an agent','/work','default','["Grep","Read"]','["Edit","Grep","Read"]','default',NULL,'{}',NULL);
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
  UNIQUE (session_id, name)
) STRICT;
INSERT INTO "agents" VALUES('s1-master','s1','s1-run','master',NULL,0,'master','script','default','pending',1,NULL,1,NULL,NULL,1000.0,NULL);
INSERT INTO "agents" VALUES('s1-w1','s1','s1-run','w1','s1-master',1,'worker','script','default','pending',1,NULL,2,NULL,NULL,1000.0,NULL);
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
CREATE TABLE engines (           -- processes that owned a run; pid alone is reused by the system
  engine_id   INTEGER PRIMARY KEY,
  pid         INTEGER NOT NULL,
  start       ANY NOT NULL,      -- start time of the process as its platform tells it
  boot_id     TEXT NOT NULL,
  UNIQUE (boot_id, pid, start)
) STRICT;
CREATE TABLE events (
  session_id TEXT NOT NULL,
  seq        INTEGER NOT NULL,   -- 1, 2 … without a gap
  ts         REAL NOT NULL,
  run_id     TEXT,
  agent_id   TEXT,
  type       TEXT NOT NULL,
  data       TEXT NOT NULL,
  PRIMARY KEY (session_id, seq)
) STRICT;
INSERT INTO "events" VALUES('s1',1,1000.0,'s1-run','s1-w1','notice','{"level":"info","text":"one"}');
INSERT INTO "events" VALUES('s1',2,1000.0,'s1-run','s1-w1','notice','{"level":"info","text":"two"}');
CREATE TABLE grants (            -- what "always" allowed: an agent and its subtree
  grant_id    INTEGER PRIMARY KEY,
  session_id  TEXT NOT NULL,
  agent_id    TEXT,
  data        TEXT NOT NULL,
  created_at  REAL NOT NULL
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
  consumed_by    TEXT                 -- call, turn or step; not a cursor: receives are selective
) STRICT;
INSERT INTO "inbox" VALUES(1,'s1-message-000006','s1','question','s1-w1','s1-master',1,NULL,'{"text":"which one?"}',0.0,NULL);
CREATE TABLE messages (
  turn_id      TEXT NOT NULL REFERENCES turns,
  id           TEXT NOT NULL,
  role         TEXT NOT NULL,
  content      TEXT NOT NULL,
  sequence     INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  thinking     TEXT,
  tool_call_id TEXT,
  context_json TEXT,             -- of user and system messages: where the turn was assembled
  PRIMARY KEY (turn_id, id)
) STRICT;
INSERT INTO "messages" VALUES('s1-turn-000004','m0','user','do it',0,1000000,NULL,NULL,'{"session_label":"s1/w1","run_id":"s1-run","incarnation":1}');
INSERT INTO "messages" VALUES('s1-turn-000004','m1','assistant','done',1,1000001,NULL,NULL,NULL);
CREATE TABLE meta (              -- one row a session: what a person resumes
  session_id  TEXT PRIMARY KEY,
  task        TEXT NOT NULL,     -- of its first run
  workspace   TEXT NOT NULL,
  created_at  REAL NOT NULL
) STRICT;
INSERT INTO "meta" VALUES('s1','a task','/work',1.79530177781002521519e+09);
CREATE TABLE requests (          -- permission requests and questions to a person
  request_id  TEXT PRIMARY KEY,
  session_id  TEXT NOT NULL,
  agent_id    TEXT NOT NULL REFERENCES agents,
  kind        TEXT NOT NULL,
  payload     TEXT NOT NULL,
  opened_at   REAL NOT NULL,
  state       TEXT NOT NULL DEFAULT 'open', -- open | resolved, changed by compare-and-set
  answer      TEXT,
  resolved_by TEXT
) STRICT;
INSERT INTO "requests" VALUES('s1-request-000010','s1','s1-w1','permission','{"tool":"Bash","command":"make"}',1000.0,'open',NULL,NULL);
CREATE TABLE runs (
  run_id      TEXT PRIMARY KEY,
  session_id  TEXT NOT NULL REFERENCES meta,
  engine_id   INTEGER REFERENCES engines,
  task        TEXT NOT NULL,
  workspace   TEXT NOT NULL,
  status      TEXT NOT NULL,     -- running | completed | failed | killed | interrupted
  outcome     TEXT,              -- what run_finished said
  started_at  REAL NOT NULL,
  finished_at REAL
) STRICT;
INSERT INTO "runs" VALUES('s1-run','s1',NULL,'a task','/work','running',NULL,1.79530177781002521519e+09,NULL);
CREATE TABLE session_history (
  session_label TEXT NOT NULL REFERENCES sessions,
  thread_id     TEXT NOT NULL REFERENCES turns,
  changed_at    INTEGER NOT NULL
) STRICT;
INSERT INTO "session_history" VALUES('s1/w1','s1-turn-000004',1000500);
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
INSERT INTO "sessions" VALUES('s1/master',NULL,0,NULL,'s1','s1-master',1000000,1000000);
INSERT INTO "sessions" VALUES('s1/w1','s1-turn-000004',1,'s1/master','s1','s1-w1',1000000,1000500);
CREATE TABLE steps (             -- the result of each step: its events are contiguous
  step_id     TEXT PRIMARY KEY,
  session_id  TEXT NOT NULL,
  kind        TEXT NOT NULL,
  first_seq   INTEGER NOT NULL,
  event_count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "steps" VALUES('s1-step-000001','s1','ControlStep',0,0);
INSERT INTO "steps" VALUES('s1-step-000002','s1','SpawnStep',0,0);
INSERT INTO "steps" VALUES('s1-step-000003','s1','SpawnStep',0,0);
INSERT INTO "steps" VALUES('s1-step-000005','s1','TurnOpenStep',0,0);
INSERT INTO "steps" VALUES('s1-step-000007','s1','CallOpenStep',1,1);
INSERT INTO "steps" VALUES('s1-step-000008','s1','CallCloseStep',0,0);
INSERT INTO "steps" VALUES('s1-step-000009','s1','TurnCloseStep',2,1);
INSERT INTO "steps" VALUES('s1-step-000011','s1','ControlStep',0,0);
CREATE TABLE threads (
  turn_id        TEXT PRIMARY KEY REFERENCES turns,
  parent_turn_id TEXT,
  depth          INTEGER NOT NULL,
  skip_turn_id   TEXT NOT NULL,
  skip_depth     INTEGER NOT NULL,
  total_tokens   INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "threads" VALUES('s1-turn-000004',NULL,0,'s1-turn-000004',0,15);
CREATE TABLE tool_calls (
  turn_id               TEXT NOT NULL REFERENCES turns,
  id                    TEXT NOT NULL, -- vendors use an id again in a later turn
  message_id            TEXT,
  tool_name             TEXT NOT NULL,
  params                TEXT NOT NULL,
  arguments_hash        TEXT NOT NULL,
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
INSERT INTO "tool_calls" VALUES('s1-turn-000004','c1',NULL,'ask_parent','{"question":"which one?"}','1e5da401414dc920f4102b5f85803bd4f4b2d23691e43035de09e0c2aff34a70','the answer',NULL,'completed',1000100,1000200,0,1,NULL);
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
  closed_by           TEXT, usage_provenance TEXT, cost_provenance TEXT,      -- the step that closed it, so that closing again changes nothing
  UNIQUE (agent_id, turn_no)
) STRICT;
INSERT INTO "turns" VALUES('s1-turn-000004',NULL,'normal','completed',1000000,1000500,'default','script','worker','worker','["Read","Grep"]','["Read"]','[]',10,5,NULL,NULL,NULL,15,'["m0"]','m1',0,1,NULL,'/work','s1-w1',1,'end_turn',NULL,NULL,500,'s1-step-000009','reported','unknown');
CREATE INDEX runs_of_session ON runs (session_id);
CREATE INDEX inbox_unconsumed ON inbox (session_id, position) WHERE consumed_by IS NULL;
CREATE INDEX requests_open ON requests (session_id) WHERE state = 'open';
CREATE INDEX grants_of_session ON grants (session_id);
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
CREATE INDEX session_history_of_label ON session_history (session_label);
CREATE INDEX events_of_agent ON events (session_id, agent_id, seq);
CREATE INDEX events_of_tools ON events (session_id, agent_id, seq)
  WHERE type = 'tool_call_started';
COMMIT;
