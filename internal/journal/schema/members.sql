-- What a journal has in PostgreSQL alone: who shares it. Times here are those of the
-- database's clock.

-- The member that leads, or did last: one row. Its key is the epoch, which only who takes the
-- lead changes.
CREATE TABLE leader (
    epoch BIGINT PRIMARY KEY,
    name  TEXT COLLATE "C" NOT NULL,
    since TIMESTAMPTZ,
    until TIMESTAMPTZ NOT NULL
);

CREATE UNIQUE INDEX leader_only ON leader ((true));
INSERT INTO leader (epoch, name, until) VALUES (0, '', '-infinity');

-- Those who may lead, and lead callers to who does.
CREATE TABLE members (
    name TEXT COLLATE "C" PRIMARY KEY,
    body TEXT COLLATE "C" NOT NULL,
    seen TIMESTAMPTZ NOT NULL
);
