-- The names that were minted for agents, and for which user's session; of a name that
-- was minted for no session, that is empty.
CREATE TABLE names (
    name    TEXT PRIMARY KEY,
    uid     INTEGER NOT NULL,
    session TEXT NOT NULL,
    -- When it was last asked for, and where that stands among the questions of the user.
    used    INTEGER NOT NULL,
    nth     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX names_session ON names (uid, session) WHERE session <> '';
CREATE INDEX names_used ON names (used);
CREATE INDEX names_nth ON names (uid, nth);
