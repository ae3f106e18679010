-- Idempotency keys, and the answers that their requests got.

CREATE TABLE requests (
    key         TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    state       TEXT NOT NULL DEFAULT 'in_flight' CHECK (state IN ('in_flight', 'interrupted', 'answered')),
    -- The claim made for the request, if it makes one.
    claim_id    TEXT,
    status      INTEGER NOT NULL DEFAULT 0,
    body        BLOB,
    created     INTEGER NOT NULL
) STRICT;
