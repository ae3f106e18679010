-- The schema of a journal, in SQLite's dialect; schema.go translates it for PostgreSQL. A change of it
-- is a new number there, and a step that leads to it.
--
-- All other statements work in both. Only this file uses what SQLite alone has (STRICT,
-- WITHOUT ROWID). An INTEGER PRIMARY KEY that an INSERT leaves out gets a number above all
-- others in the table.
--
-- Times are milliseconds since 1970, 0 for none. A body is the thing itself, as JSON; the
-- columns beside it are those that statements select by.

-- Values by key. Under "schema" is the number of this schema, see schema.go.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE claims (
    id      TEXT PRIMARY KEY,
    task_id TEXT NOT NULL,
    agent   TEXT NOT NULL,
    state   TEXT NOT NULL,
    -- When it was granted (0 also if that was not to work on it), and when it ended.
    started INTEGER NOT NULL,
    ended   INTEGER NOT NULL,
    -- Set if somebody else ended the claim before its agent was done with the task:
    -- untold until an answer to the agent has named it.
    loss    TEXT CHECK (loss IN ('untold', 'told')),
    body    TEXT NOT NULL
) STRICT;

CREATE INDEX claims_live ON claims (id) WHERE state <> 'ended';
CREATE INDEX claims_task ON claims (task_id, id);
CREATE INDEX claims_agent ON claims (agent, id);
CREATE INDEX claims_ended ON claims (ended, id) WHERE state = 'ended';
CREATE INDEX claims_losses ON claims (agent, id) WHERE loss IS NOT NULL;

-- What the daemon itself has on pages: see claim.Mark. What is left of an attempt has the id of
-- its claim.
CREATE TABLE marks (
    id      TEXT PRIMARY KEY,
    task_id TEXT NOT NULL,
    agent   TEXT NOT NULL,
    ended   INTEGER NOT NULL, -- when; 0 before
    body    TEXT NOT NULL
) STRICT;

CREATE INDEX marks_live ON marks (id) WHERE ended = 0;
CREATE INDEX marks_task ON marks (task_id) WHERE ended = 0;

-- One row for each task that a claim here has. From `until` on, another claim may take the
-- row over.
CREATE TABLE reservations (
    task_id  TEXT PRIMARY KEY,
    -- Deferred, because this row is inserted first: it decides whether there is a claim.
    claim_id TEXT NOT NULL UNIQUE REFERENCES claims (id) DEFERRABLE INITIALLY DEFERRED,
    agent    TEXT NOT NULL,
    until    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX reservations_agent ON reservations (agent);

-- The largest fence given out, see claim.Hold.Fence. There is one row.
CREATE TABLE fence (last INTEGER NOT NULL) STRICT;
INSERT INTO fence (last) VALUES (0);

-- Few, short-lived things, by kind and key, as JSON: the keepers of claims, offers to agents,
-- questions of agents to people, and reservations of files and names. (The table reservations
-- is about tasks.)
CREATE TABLE kept (
    kind  TEXT NOT NULL,
    key   TEXT NOT NULL,
    agent TEXT NOT NULL, -- the owner, for kinds that are selected by it
    body  TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;

-- What happened, each thing once: the record (kept here, and in the logs in Notion) and the
-- feed, which agents read.
CREATE TABLE facts (
    -- The order of storing.
    seq      INTEGER PRIMARY KEY,
    id       TEXT NOT NULL UNIQUE CHECK (length(id) = 26),
    at       INTEGER NOT NULL,
    task_id  TEXT NOT NULL,
    agent    TEXT NOT NULL,
    holder   TEXT NOT NULL,
    claim_id TEXT NOT NULL,
    -- Whether it is on record.
    logged   INTEGER NOT NULL CHECK (logged IN (0, 1)),
    -- Its number in the feed, if it is there: the cursor of readers. The fact with the largest
    -- one is never pruned, so that no number is used twice.
    told     INTEGER,
    -- Of a denial, the claim whose contested fact will count it.
    against  TEXT,
    -- How many denials this row counts: all those of one agent against one claim.
    count    INTEGER NOT NULL DEFAULT 1,
    -- 1 for a failed try that claim.max_attempts counts: until the task is done, waits for a
    -- person, or is opened again.
    tried    INTEGER,
    -- 1 for the end of a claim, which later ones on the task are told.
    earlier  INTEGER,
    -- Of a completion, how many milliseconds the agent had the task.
    took     INTEGER,
    body     TEXT NOT NULL
) STRICT;

CREATE INDEX facts_logged ON facts (seq) WHERE logged = 1;
CREATE INDEX facts_task ON facts (task_id, seq);
CREATE INDEX facts_agent ON facts (agent, seq) WHERE logged = 1;
CREATE INDEX facts_claim ON facts (claim_id, seq) WHERE logged = 1;
CREATE UNIQUE INDEX facts_told ON facts (told) WHERE told IS NOT NULL;
CREATE INDEX facts_news ON facts (task_id, told) WHERE told IS NOT NULL;
CREATE INDEX facts_when ON facts (at, told);
CREATE INDEX facts_tried ON facts (task_id, seq) WHERE tried IS NOT NULL;
CREATE INDEX facts_earlier ON facts (task_id, seq) WHERE earlier IS NOT NULL;
CREATE INDEX facts_took ON facts (agent, at, seq) WHERE took IS NOT NULL;
CREATE INDEX facts_denials ON facts (against, agent) WHERE against IS NOT NULL;

-- The outbox, with what Notion is owed: log entries and comments, one row for each that a fact
-- becomes, and tasks to make. And with notices, of a kind for each receiver. Each is due to be sent,
-- being sent, in doubt (sent, and perhaps there), or delivered.
CREATE TABLE owed (
    -- The order of storing.
    seq          INTEGER PRIMARY KEY,
    kind         TEXT NOT NULL,
    -- The fact of an entry. A task has no fact but an id, which its page bears until somebody
    -- claims it.
    fact         INTEGER REFERENCES facts (seq) ON DELETE CASCADE,
    id           TEXT,
    at           INTEGER NOT NULL, -- when the fact happened, or the task was asked for
    state        TEXT NOT NULL DEFAULT 'due' CHECK (state IN ('due', 'sending', 'in_doubt', 'delivered')),
    tries        INTEGER NOT NULL DEFAULT 0,
    not_before   INTEGER NOT NULL DEFAULT 0,
    sent_at      INTEGER NOT NULL DEFAULT 0,
    delivered_at INTEGER NOT NULL DEFAULT 0,
    -- The page that a task has become, once it is known to be there.
    ref          TEXT NOT NULL DEFAULT '',
    last_error   TEXT NOT NULL DEFAULT '',
    UNIQUE (fact, kind),
    CHECK ((fact IS NULL) <> (id IS NULL))
) STRICT;

-- The outbox grows while Notion takes less than happens here. These indices answer how long it
-- is, since when, when the next entry is due, and what failed last, without reading every entry
-- and its fact.
CREATE INDEX owed_next ON owed (kind, seq) WHERE state <> 'delivered';
CREATE INDEX owed_due ON owed (kind, not_before, state, at) WHERE state <> 'delivered';
CREATE INDEX owed_failed ON owed (kind, sent_at, seq) WHERE state <> 'delivered' AND last_error <> '';

CREATE UNIQUE INDEX owed_id ON owed (id) WHERE id IS NOT NULL;
CREATE UNIQUE INDEX owed_ref ON owed (ref) WHERE ref <> '';
CREATE INDEX owed_at ON owed (at) WHERE id IS NOT NULL;

-- The mirror of the tasks database.
CREATE TABLE tasks (
    id   TEXT PRIMARY KEY,
    body TEXT NOT NULL
) STRICT;

-- The last published state of each task, also of tasks that have left the mirror, and whether the
-- task may have news: whoever changes the mirror sets due.
CREATE TABLE told (
    task_id TEXT PRIMARY KEY,
    at      INTEGER NOT NULL,
    ready   INTEGER NOT NULL CHECK (ready IN (0, 1)),
    since   INTEGER NOT NULL, -- when it became ready, if it is
    body    TEXT NOT NULL, -- empty if nothing was published yet
    due     INTEGER NOT NULL CHECK (due IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE INDEX told_due ON told (task_id) WHERE due = 1;
CREATE INDEX told_ready ON told (task_id) WHERE ready = 1;

-- Which unfinished task depends on which, as published.
CREATE TABLE dependencies (
    on_id   TEXT NOT NULL,
    task_id TEXT NOT NULL,
    PRIMARY KEY (on_id, task_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX dependencies_task ON dependencies (task_id);

-- Triggers, each delivered once.
CREATE TABLE triggers (
    seq     INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE,
    agent   TEXT NOT NULL,
    -- Identifies its cause: an agent gets one trigger for each key.
    key     TEXT NOT NULL,
    type    TEXT NOT NULL,
    rank    INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    state   TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'processing', 'acknowledged')),
    -- When it was taken, by which poll, and by which process if one was named.
    taken   INTEGER NOT NULL DEFAULT 0,
    taker   TEXT NOT NULL DEFAULT '',
    process TEXT NOT NULL DEFAULT '',
    body    TEXT NOT NULL,
    UNIQUE (agent, key)
) STRICT;

CREATE INDEX triggers_live ON triggers (agent, rank, seq) WHERE state <> 'acknowledged';
CREATE INDEX triggers_taken ON triggers (agent, taken) WHERE state = 'processing';
CREATE INDEX triggers_taker ON triggers (taker) WHERE state = 'processing';
CREATE INDEX triggers_pending ON triggers (seq) WHERE state = 'pending';
CREATE INDEX triggers_at ON triggers (at);

-- The agents that poll, when they last did, and whether they want to know what is finished:
-- because the configuration says so (lead), or a poll did (finished).
CREATE TABLE pollers (
    agent    TEXT PRIMARY KEY,
    polled   INTEGER NOT NULL DEFAULT 0,
    lead     INTEGER NOT NULL DEFAULT 0 CHECK (lead IN (0, 1)),
    finished INTEGER NOT NULL DEFAULT 0 CHECK (finished IN (0, 1))
) STRICT, WITHOUT ROWID;

-- Idempotency keys, and the answers to their requests. A key belongs to a user, -1 if unknown.
-- nth counts the requests of a user, so that the oldest ones are found when there are too many.
CREATE TABLE requests (
    seq         INTEGER PRIMARY KEY,
    uid         INTEGER NOT NULL,
    key         TEXT NOT NULL,
    nth         INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    -- The id of the claim or intent that was made for the request, if any.
    made        TEXT,
    -- The status of the answer; zero while there is none.
    status      INTEGER NOT NULL DEFAULT 0,
    body        BLOB,
    created     INTEGER NOT NULL,
    UNIQUE (uid, key)
) STRICT;

CREATE INDEX requests_nth ON requests (uid, nth);

-- The names that were minted for agents, each with its user and session. The session is empty
-- if the name was minted for none.
CREATE TABLE names (
    name    TEXT PRIMARY KEY,
    uid     INTEGER NOT NULL,
    session TEXT NOT NULL,
    -- When the name was last asked for, and the number of that request among the user's.
    used    INTEGER NOT NULL,
    nth     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX names_session ON names (uid, session) WHERE session <> '';
CREATE INDEX names_used ON names (used);
CREATE INDEX names_nth ON names (uid, nth);

-- What claims used of tokens and money (in millionths of a US dollar), as their agents reported, by
-- the quarter of an hour in which they did: in every time zone, days begin with one.
CREATE TABLE used (
    claim_id TEXT NOT NULL,
    start    INTEGER NOT NULL,
    task_id  TEXT NOT NULL,
    agent    TEXT NOT NULL,
    tokens   INTEGER NOT NULL,
    micros   INTEGER NOT NULL,
    PRIMARY KEY (claim_id, start)
) STRICT, WITHOUT ROWID;

CREATE INDEX used_agent ON used (agent, start);
CREATE INDEX used_task ON used (task_id);
CREATE INDEX used_start ON used (start);

-- When each agent was last active.
CREATE TABLE seen (
    agent TEXT PRIMARY KEY,
    at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX seen_at ON seen (at);
