-- Who keeps a claim alive: processes and connections, as JSON.
CREATE TABLE keepers (
    claim_id TEXT NOT NULL PRIMARY KEY,
    body     TEXT NOT NULL
) STRICT;
