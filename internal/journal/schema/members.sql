-- The tables that a journal has only in PostgreSQL: who shares it. Times are by the database's
-- clock.

-- The leader, or the last one: one row. Its key is the epoch, which changes only when a member
-- takes the lead. The id is random: after a failover to a standby that lagged, an epoch can be
-- given out twice.
CREATE TABLE leadership (
    epoch BIGINT PRIMARY KEY,
    id    TEXT COLLATE "C" NOT NULL,
    name  TEXT COLLATE "C" NOT NULL,
    since TIMESTAMPTZ,
    until TIMESTAMPTZ NOT NULL,
    -- From when to when transactions may be lost, because the database was set back; null if it
    -- never was.
    lost_from  TIMESTAMPTZ,
    lost_until TIMESTAMPTZ
);

CREATE UNIQUE INDEX leadership_only ON leadership ((true));

-- The terms: each with the number of its last transaction, and when that was made.
CREATE TABLE terms (
    epoch BIGINT,
    id    TEXT COLLATE "C",
    last  BIGINT NOT NULL,
    at    TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (epoch, id)
);

-- The members: each may lead, and is a door to the leader else.
CREATE TABLE members (
    name TEXT COLLATE "C" PRIMARY KEY,
    body TEXT COLLATE "C" NOT NULL,
    seen TIMESTAMPTZ NOT NULL
);
