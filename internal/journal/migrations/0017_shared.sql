-- Where several daemons share one inbox, what is stored here has yet to get there.

CREATE INDEX triggers_pending ON triggers (seq) WHERE state = 'pending';

-- Acknowledgements that the shared inbox has yet to be told of.
CREATE TABLE acks (
    id    TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
