-- Claims, who has which task, what happened, and what is owed to the logs.
--
-- Times are milliseconds since 1970, 0 for none. A body is the JSON of the
-- thing itself; the columns beside it are what statements here ask for.

CREATE TABLE claims (
    id      TEXT PRIMARY KEY,
    task_id TEXT NOT NULL,
    agent   TEXT NOT NULL,
    state   TEXT NOT NULL,
    ended   INTEGER NOT NULL,
    body    TEXT NOT NULL
) STRICT;

CREATE INDEX claims_live ON claims (id) WHERE state <> 'ended';
CREATE INDEX claims_task ON claims (task_id, id);
CREATE INDEX claims_agent ON claims (agent, id);

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

CREATE TABLE events (
    -- Each row gets a number above those that are there: the order of storing.
    seq      INTEGER PRIMARY KEY,
    id       TEXT NOT NULL UNIQUE CHECK (length(id) = 26),
    at       INTEGER NOT NULL,
    task_id  TEXT NOT NULL,
    agent    TEXT NOT NULL,
    claim_id TEXT NOT NULL,
    -- The claim whose contested event is to count this denial.
    against  TEXT,
    body     TEXT NOT NULL
) STRICT;

CREATE INDEX events_task ON events (task_id);
CREATE INDEX events_agent ON events (agent);
CREATE INDEX events_claim ON events (claim_id);
CREATE INDEX events_against ON events (against) WHERE against IS NOT NULL;

-- One row per event and log that the event is to become an entry of: due to be
-- sent, being sent, sent and perhaps in Notion (in doubt), or delivered.
CREATE TABLE outbox (
    event        INTEGER NOT NULL REFERENCES events (seq) ON DELETE CASCADE,
    log          TEXT NOT NULL,
    state        TEXT NOT NULL DEFAULT 'due' CHECK (state IN ('due', 'sending', 'in_doubt', 'delivered')),
    tries        INTEGER NOT NULL DEFAULT 0,
    not_before   INTEGER NOT NULL DEFAULT 0,
    sent_at      INTEGER NOT NULL DEFAULT 0,
    delivered_at INTEGER NOT NULL DEFAULT 0,
    last_error   TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (event, log)
) STRICT, WITHOUT ROWID;

CREATE INDEX outbox_owed ON outbox (event, log) WHERE state <> 'delivered';
