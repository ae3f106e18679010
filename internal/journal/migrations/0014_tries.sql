-- The tries at tasks that came to nothing, until the task is done, waits for a person, or
-- is opened again: what claim.max_attempts counts.
CREATE TABLE tries (
    seq     INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL,
    at      INTEGER NOT NULL,
    body    TEXT NOT NULL
) STRICT;

CREATE INDEX tries_task ON tries (task_id, seq);
CREATE INDEX tries_at ON tries (at);
