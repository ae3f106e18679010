-- What was told by the absence of a time, by the presence of a finish and by a flag
-- has names of its own: a claim whose write has not been seen, the mark of a sweep,
-- and a claim that is being taken off its page.

UPDATE claims
   SET body = json_remove(json_set(body, '$.sweep', json_object('reason', coalesce(json_extract(body, '$.finish.summary'), ''))), '$.finish')
 WHERE json_extract(body, '$.finish.as') = 'swept';

UPDATE claims
   SET state = 'unseen', body = json_set(body, '$.state', 'unseen')
 WHERE state = 'abandoned' AND json_extract(body, '$.due_at') IS NULL;

UPDATE claims
   SET state = 'clearing', body = json_set(json_remove(body, '$.clearing'), '$.state', 'clearing')
 WHERE state = 'voided' AND json_extract(body, '$.clearing');

UPDATE claims
   SET body = json_remove(body, '$.override')
 WHERE json_extract(body, '$.override');
