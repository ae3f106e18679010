-- A claim that somebody else ended before its agent was done with the task. Until an
-- answer to the agent has named it, it is untold. Those from before this count as told.

ALTER TABLE claims ADD COLUMN loss TEXT CHECK (loss IN ('untold', 'told'));

-- The ids of the claims that the agent held when it was lost, a JSON array.
ALTER TABLE claims ADD COLUMN beside TEXT;

UPDATE claims
   SET loss = 'told'
 WHERE state = 'ended'
   AND json_extract(body, '$.ending') IN ('lost', 'overridden', 'swept')
   AND json_extract(body, '$.started_at') IS NOT NULL
   AND json_extract(body, '$.finish') IS NULL;

CREATE INDEX claims_losses ON claims (agent, id) WHERE loss IS NOT NULL;
