-- From 1 to 2, in a shared database.

-- Answers are texts, which bytea_output does not change.
ALTER TABLE requests ALTER body TYPE TEXT COLLATE "C" USING convert_from(body, 'UTF8');

-- A member of before finds no table under the former name, and so never leads again, not even one that
-- slept through this.
ALTER TABLE leader RENAME TO leadership;
ALTER INDEX leader_only RENAME TO leadership_only;
ALTER TABLE leadership ADD id TEXT COLLATE "C" NOT NULL DEFAULT '', ADD lost_from TIMESTAMPTZ, ADD lost_until TIMESTAMPTZ;
ALTER TABLE leadership ALTER id DROP DEFAULT;

CREATE TABLE terms (
    epoch BIGINT,
    id    TEXT COLLATE "C",
    last  BIGINT NOT NULL,
    at    TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (epoch, id)
);
