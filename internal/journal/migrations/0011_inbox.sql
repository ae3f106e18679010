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
CREATE INDEX triggers_at ON triggers (at);

-- Who polls, since when last, and who wants to know what is finished: because the
-- configuration says so, or because a poll did.
CREATE TABLE pollers (
    agent    TEXT PRIMARY KEY,
    polled   INTEGER NOT NULL DEFAULT 0,
    lead     INTEGER NOT NULL DEFAULT 0,
    finished INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- The tasks that are offered to an agent, which has yet to answer.
CREATE TABLE offers (
    task_id TEXT PRIMARY KEY,
    body    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Which tasks were told to be ready, so that it is known when none was.
ALTER TABLE told ADD COLUMN ready INTEGER NOT NULL DEFAULT 0;
UPDATE told SET ready = 1 WHERE json_extract(body, '$.ready');
CREATE INDEX told_ready ON told (task_id) WHERE ready = 1;
