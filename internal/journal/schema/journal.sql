-- What a journal consists of, in SQLite's words; in PostgreSQL's, see schema.go.
--
-- Statements elsewhere are written so that both take them; what only SQLite has (STRICT,
-- WITHOUT ROWID) stands here alone. A column INTEGER PRIMARY KEY that a statement leaves out
-- is given a number above those that are there.
--
-- Times are milliseconds since 1970, 0 for none. A body is the JSON of the thing itself;
-- the columns beside it are what statements ask for.

-- What its readers have to remember, by key, and under "schema" which schema this is.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE claims (
    id      TEXT PRIMARY KEY,
    task_id TEXT NOT NULL,
    agent   TEXT NOT NULL,
    state   TEXT NOT NULL,
    -- When it was granted, and when it ended.
    started INTEGER NOT NULL,
    ended   INTEGER NOT NULL,
    -- Of a claim that somebody else ended before its agent was done with the task. Until
    -- an answer to the agent has named it, it is untold.
    loss    TEXT CHECK (loss IN ('untold', 'told')),
    body    TEXT NOT NULL
) STRICT;

CREATE INDEX claims_live ON claims (id) WHERE state <> 'ended';
CREATE INDEX claims_task ON claims (task_id, id);
CREATE INDEX claims_agent ON claims (agent, id);
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

-- One row per task that a claim here keeps from the others. From `until` on, another
-- claim may take the row over.
CREATE TABLE reservations (
    task_id  TEXT PRIMARY KEY,
    -- Deferred, because the row is what decides whether there will be a claim.
    claim_id TEXT NOT NULL UNIQUE REFERENCES claims (id) DEFERRABLE INITIALLY DEFERRED,
    agent    TEXT NOT NULL,
    until    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX reservations_agent ON reservations (agent);

-- The largest number that a claim was given, see claim.Hold.Fence. There is one row.
CREATE TABLE fence (last INTEGER NOT NULL) STRICT;
INSERT INTO fence (last) VALUES (0);

-- Few things that are there for a while, by kind and key, as JSON: who keeps a claim alive, what
-- is offered to an agent, what agents have asked people, and what files they have reserved. (The
-- table reservations is of tasks.)
CREATE TABLE kept (
    kind  TEXT NOT NULL,
    key   TEXT NOT NULL,
    agent TEXT NOT NULL, -- whose it is, where that is asked for
    body  TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;

-- What happened, each thing once: what is on record (the local record and the logs in Notion),
-- and what agents are told.
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
    -- Its place among what agents are told, if they are. Readers remember it. The largest is
    -- kept, so that no number is used twice.
    told     INTEGER,
    -- The claim whose contested fact is to count this denial.
    against  TEXT,
    -- How many denials the row stands for: those of one agent against one claim are counted.
    count    INTEGER NOT NULL DEFAULT 1,
    -- 1 of a try that came to nothing, until the task is done, waits for a person, or is opened
    -- again: what claim.max_attempts counts.
    tried    INTEGER,
    -- Of a completion, for how many milliseconds the agent had the task.
    took     INTEGER,
    body     TEXT NOT NULL
) STRICT;

CREATE INDEX facts_logged ON facts (seq) WHERE logged = 1;
CREATE INDEX facts_task ON facts (task_id, seq) WHERE logged = 1;
CREATE INDEX facts_agent ON facts (agent, seq) WHERE logged = 1;
CREATE INDEX facts_claim ON facts (claim_id, seq) WHERE logged = 1;
CREATE UNIQUE INDEX facts_told ON facts (told) WHERE told IS NOT NULL;
CREATE INDEX facts_news ON facts (task_id, told) WHERE told IS NOT NULL;
CREATE INDEX facts_when ON facts (at, told) WHERE told IS NOT NULL;
CREATE INDEX facts_tried ON facts (task_id, seq) WHERE tried IS NOT NULL;
CREATE INDEX facts_took ON facts (agent, at, seq) WHERE took IS NOT NULL;
CREATE INDEX facts_denials ON facts (against, agent) WHERE against IS NOT NULL;

-- What Notion is owed: entries of the logs and comments, one row for each that a fact is
-- to become, and tasks that are made here. Each is due to be sent, being sent, sent and perhaps in
-- Notion (in doubt), or delivered.
CREATE TABLE owed (
    -- The order of storing.
    seq          INTEGER PRIMARY KEY,
    kind         TEXT NOT NULL,
    -- What an entry tells of. A task tells of none: it has an id, which its page bears until
    -- somebody claims it.
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

-- What is owed grows for as long as Notion takes less than happens here. The indices say
-- how much it is, since when, when the next is due, and what failed last, without a look
-- at each entry and its fact.
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

-- The state of each task that was told last, also of tasks that have left the mirror, and whether
-- there may be something to tell of it: whoever changes the mirror notes that here.
CREATE TABLE told (
    task_id TEXT PRIMARY KEY,
    at      INTEGER NOT NULL,
    ready   INTEGER NOT NULL CHECK (ready IN (0, 1)),
    since   INTEGER NOT NULL, -- when it became ready, if it is
    body    TEXT NOT NULL, -- empty if nothing was told yet
    due     INTEGER NOT NULL CHECK (due IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE INDEX told_due ON told (task_id) WHERE due = 1;
CREATE INDEX told_ready ON told (task_id) WHERE ready = 1;

-- Which unfinished task depends on which, as told.
CREATE TABLE dependencies (
    on_id   TEXT NOT NULL,
    task_id TEXT NOT NULL,
    PRIMARY KEY (on_id, task_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX dependencies_task ON dependencies (task_id);

-- What agents are to react to, each handed out once.
CREATE TABLE triggers (
    seq     INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE,
    agent   TEXT NOT NULL,
    -- What it tells of: the agent is told of each once.
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

-- Who polls, since when last, and who wants to know what is finished: because the
-- configuration says so, or because a poll did.
CREATE TABLE pollers (
    agent    TEXT PRIMARY KEY,
    polled   INTEGER NOT NULL DEFAULT 0,
    lead     INTEGER NOT NULL DEFAULT 0 CHECK (lead IN (0, 1)),
    finished INTEGER NOT NULL DEFAULT 0 CHECK (finished IN (0, 1))
) STRICT, WITHOUT ROWID;

-- Idempotency keys, and the answers that their requests got. A key belongs to the user who
-- used it, -1 where that is not known. nth counts the requests of a user, so that those
-- beyond a number are found.
CREATE TABLE requests (
    seq         INTEGER PRIMARY KEY,
    uid         INTEGER NOT NULL,
    key         TEXT NOT NULL,
    nth         INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    -- The claim, or what Notion is owed, that was made for the request, if it makes one.
    made        TEXT,
    -- Of the answer; zero while there is none.
    status      INTEGER NOT NULL DEFAULT 0,
    body        BLOB,
    created     INTEGER NOT NULL,
    UNIQUE (uid, key)
) STRICT;

CREATE INDEX requests_nth ON requests (uid, nth);

-- The names that were minted for agents, and for which user's session; of a name that
-- was minted for no session, that is empty.
CREATE TABLE names (
    name    TEXT PRIMARY KEY,
    uid     INTEGER NOT NULL,
    session TEXT NOT NULL,
    -- When it was last asked for, and where that stands among the questions of the user.
    used    INTEGER NOT NULL,
    nth     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX names_session ON names (uid, session) WHERE session <> '';
CREATE INDEX names_used ON names (used);
CREATE INDEX names_nth ON names (uid, nth);

-- What happened, as numbers to be looked at: how often each thing did in a span of time,
-- as a JSON object by name. A span is a minute, or five, in milliseconds.
CREATE TABLE history (
    span   INTEGER NOT NULL,
    start  INTEGER NOT NULL,
    counts TEXT NOT NULL,
    PRIMARY KEY (span, start)
) STRICT, WITHOUT ROWID;

-- When each agent was last there.
CREATE TABLE seen (
    agent TEXT PRIMARY KEY,
    at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX seen_at ON seen (at);
