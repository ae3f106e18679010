-- The tables that a journal has only in PostgreSQL: who shares it. Times are by the database's
-- clock.

-- The leader, or the last one: one row. Its key is the epoch, which changes only when a member
-- takes the lead.
CREATE TABLE leader (
    epoch BIGINT PRIMARY KEY,
    name  TEXT COLLATE "C" NOT NULL,
    since TIMESTAMPTZ,
    until TIMESTAMPTZ NOT NULL
);

CREATE UNIQUE INDEX leader_only ON leader ((true));
INSERT INTO leader (epoch, name, until) VALUES (0, '', '-infinity');

-- The members: each may lead, and is a door to the leader else.
CREATE TABLE members (
    name TEXT COLLATE "C" PRIMARY KEY,
    body TEXT COLLATE "C" NOT NULL,
    seen TIMESTAMPTZ NOT NULL
);
