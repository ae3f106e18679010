-- What is owed grows for as long as Notion takes less than happens here. The
-- indices say how much it is, since when, when the next is due, and what failed
-- last, without a look at each entry and its event.

-- When the event happened.
ALTER TABLE outbox ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
UPDATE outbox SET at = (SELECT at FROM events WHERE seq = event);

CREATE INDEX outbox_log ON outbox (log, not_before, state, at) WHERE state <> 'delivered';
CREATE INDEX outbox_failed ON outbox (log, sent_at, event) WHERE state <> 'delivered' AND last_error <> '';
