-- The mirror of the tasks database, and what its reader has to remember.

CREATE TABLE tasks (
    id       TEXT PRIMARY KEY,
    finished INTEGER NOT NULL CHECK (finished IN (0, 1)),
    -- When the reading that the body shows was made.
    seen     INTEGER NOT NULL,
    body     TEXT NOT NULL
) STRICT;

CREATE INDEX tasks_unfinished ON tasks (id) WHERE finished = 0;

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
