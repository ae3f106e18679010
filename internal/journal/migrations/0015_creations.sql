-- The tasks that are made here, each stored before it is sent.

CREATE TABLE creations (
    -- The page bears it until somebody claims the task.
    id          TEXT PRIMARY KEY,
    uid         INTEGER NOT NULL,
    key         TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    at          INTEGER NOT NULL,
    -- Empty until the page is known to be there.
    page        TEXT NOT NULL DEFAULT '',
    UNIQUE (uid, key)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX creations_page ON creations (page) WHERE page <> '';
CREATE INDEX creations_at ON creations (at);

-- The questions that agents asked people, and whose answers they wait for.
CREATE TABLE questions (
    task_id TEXT PRIMARY KEY,
    agent   TEXT NOT NULL,
    body    TEXT NOT NULL
) STRICT, WITHOUT ROWID;
