-- What happened, as numbers to be looked at: how often each thing did in a span of time,
-- as a JSON object by name. A span is a minute, or five, in milliseconds.
CREATE TABLE history (
    span   INTEGER NOT NULL,
    start  INTEGER NOT NULL,
    counts TEXT NOT NULL,
    PRIMARY KEY (span, start)
) STRICT, WITHOUT ROWID;

INSERT INTO history (span, start, counts)
SELECT span, start, json_group_object(name, n) FROM (
    SELECT span.value AS span, at - at % span.value AS start, sum(count) AS n,
           CASE body ->> '$.kind'
               WHEN 'review' THEN 'completed'
               WHEN 'overridden' THEN 'lost'
               WHEN 'denied' THEN 'denied/' || coalesce(body ->> '$.code', '')
               ELSE body ->> '$.kind'
           END AS name
      FROM events, json_each('[60000, 300000]') AS span
     WHERE at >= (unixepoch() - 8 * 86400) * 1000
       AND body ->> '$.kind' IN ('granted', 'completed', 'review', 'failed', 'lost', 'overridden', 'swept', 'denied')
     GROUP BY 1, 2, 4)
 GROUP BY span, start;

-- Since when a task is ready, as told.
ALTER TABLE told ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
UPDATE told SET since = at WHERE ready = 1;

-- When each agent was last there.
CREATE TABLE seen (
    agent TEXT PRIMARY KEY,
    at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX seen_at ON seen (at);

INSERT INTO seen (agent, at)
SELECT agent, max(at) FROM (
    SELECT agent, at FROM events
     WHERE body ->> '$.kind' NOT IN ('lost', 'swept', 'conflict', 'contested', 'expiring', 'cleared', 'withdrawn', 'unreserved')
    UNION ALL SELECT agent, polled FROM pollers WHERE polled > 0)
 WHERE agent <> '' GROUP BY agent;

-- What each agent completed, and how many milliseconds it had the task.
CREATE TABLE completions (
    event INTEGER PRIMARY KEY, -- its number
    agent TEXT NOT NULL,
    at    INTEGER NOT NULL,
    took  INTEGER NOT NULL
) STRICT;

CREATE INDEX completions_agent ON completions (agent, at);

INSERT INTO completions (event, agent, at, took)
SELECT seq, agent, at,
       coalesce(max(0, cast(1000 * (unixepoch(body ->> '$.finished_at', 'subsec') - unixepoch(body ->> '$.started_at', 'subsec')) AS INTEGER)), 0)
  FROM events
 WHERE at >= (unixepoch() - 8 * 86400) * 1000 AND agent <> '' AND body ->> '$.kind' IN ('completed', 'review');
