-- Files, by pattern, and other things that agents have reserved. (The table reservations
-- is of tasks.) A row is there for as long as the reservation is.

CREATE TABLE reserved (
    id   TEXT PRIMARY KEY,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;
