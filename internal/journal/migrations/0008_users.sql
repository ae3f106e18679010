-- An idempotency key belongs to the user who used it: -1 where that is not known,
-- as of the keys from before this. nth counts the requests of a user, so that those
-- beyond a number are found.

CREATE TABLE requests_of_users (
    uid         INTEGER NOT NULL,
    key         TEXT NOT NULL,
    nth         INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    state       TEXT NOT NULL DEFAULT 'in_flight' CHECK (state IN ('in_flight', 'interrupted', 'answered')),
    -- The claim made for the request, if it makes one.
    claim_id    TEXT,
    status      INTEGER NOT NULL DEFAULT 0,
    body        BLOB,
    created     INTEGER NOT NULL,
    PRIMARY KEY (uid, key)
) STRICT;

INSERT INTO requests_of_users (uid, key, nth, fingerprint, state, claim_id, status, body, created)
SELECT -1, key, rowid, fingerprint, state, claim_id, status, body, created FROM requests;

DROP TABLE requests;
ALTER TABLE requests_of_users RENAME TO requests;
CREATE INDEX requests_nth ON requests (uid, nth);

-- How many denials a row stands for: those of one agent against one claim are counted.
ALTER TABLE events ADD COLUMN count INTEGER NOT NULL DEFAULT 1;

DROP INDEX events_against;
CREATE INDEX events_denials ON events (against, agent) WHERE against IS NOT NULL;
