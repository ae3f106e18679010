-- What agents are told.

CREATE TABLE feed (
    -- Never used twice, also when the newest rows are gone: readers remember it.
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    at       INTEGER NOT NULL,
    task_id  TEXT NOT NULL,
    claim_id TEXT NOT NULL,
    agent    TEXT NOT NULL,
    holder   TEXT NOT NULL,
    body     TEXT NOT NULL
) STRICT;

CREATE INDEX feed_task ON feed (task_id, id);
CREATE INDEX feed_claim ON feed (claim_id, id) WHERE claim_id <> '';
CREATE INDEX feed_at ON feed (at);

-- The state of each task that was told last, also of tasks that have left the mirror.
CREATE TABLE told (
    task_id TEXT PRIMARY KEY,
    at      INTEGER NOT NULL,
    body    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Which unfinished task depends on which, as told.
CREATE TABLE dependencies (
    on_id   TEXT NOT NULL,
    task_id TEXT NOT NULL,
    PRIMARY KEY (on_id, task_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX dependencies_task ON dependencies (task_id);

-- The tasks of which there may be something to tell: whoever changes the mirror
-- notes it here, by these triggers, so that nothing can be forgotten.
CREATE TABLE untold (
    task_id TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TRIGGER tasks_inserted AFTER INSERT ON tasks BEGIN
    INSERT INTO untold VALUES (new.id) ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER tasks_updated AFTER UPDATE OF body ON tasks WHEN new.body <> old.body BEGIN
    INSERT INTO untold VALUES (new.id) ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER tasks_deleted AFTER DELETE ON tasks BEGIN
    INSERT INTO untold VALUES (old.id) ON CONFLICT DO NOTHING;
END;

INSERT INTO untold SELECT id FROM tasks;
