package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"dibs/internal/claim"
	"dibs/internal/journal/inbox"
	"dibs/internal/task"
)

// TakeTriggers hands out triggers, by type and then by age. Nobody else gets them until they
// are acknowledged or become pending again.
func (j *Journal) TakeTriggers(ctx context.Context, t inbox.Take) ([]inbox.Trigger, error) {
	var out []inbox.Trigger
	err := j.write(ctx, func(tx *tx) (err error) {
		if err := poll(ctx, tx, t); err != nil {
			return err
		}
		if err := noteActive(ctx, tx, t.Agent, t.At); err != nil {
			return err
		}
		if out, err = collect(ctx, tx, scanTrigger, `
			SELECT body FROM triggers WHERE taker = ? AND state = 'processing' AND agent = ? ORDER BY seq`, t.Taker, t.Agent); err != nil {
			return err
		}
		if len(out) > 0 {
			inbox.Sort(out)
			return retake(ctx, tx, t)
		}
		if err := comeBack(ctx, tx, t); err != nil {
			return err
		}
		out, err = collect(ctx, tx, scanTrigger, `
			SELECT body FROM triggers
			 WHERE agent = ?1 AND state <> 'acknowledged' AND state = 'pending' AND (type <> ?2 OR ?3 > 0)
			 ORDER BY rank, seq LIMIT CAST(?4 AS BIGINT)`, t.Agent, inbox.TasksAvailable, t.Available, atMost(t.Limit))
		for i := range out {
			if err == nil {
				err = taken(ctx, tx, &out[i], t)
			}
		}
		return err
	})
	if err != nil {
		return nil, j.failed(err, "taking the triggers of %s", t.Agent)
	}
	return out, nil
}

// poll notes that an agent polls. Its first poll adds the trigger for available tasks.
func poll(ctx context.Context, tx *tx, t inbox.Take) error {
	var polled int64
	err := tx.QueryRowContext(ctx, "SELECT polled FROM pollers WHERE agent = ?", t.Agent).Scan(&polled)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if polled == 0 {
		if t.New != nil {
			if err := t.New(); err != nil {
				return err
			}
		}
	}
	if polled == 0 || t.Anew {
		if _, err := insertTriggers(ctx, tx, inbox.Available(t.Agent, t.At)); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO pollers (agent, polled, finished) VALUES (?, ?, ?)
		    ON CONFLICT (agent) DO UPDATE
		   SET polled = excluded.polled, finished = CASE WHEN excluded.finished = 1 THEN 1 ELSE pollers.finished END`,
		t.Agent, millis(t.Now), flag(t.Finished))
	return err
}

// retake restarts the visibility timeout of the triggers that a repeated poll already took.
func retake(ctx context.Context, tx *tx, t inbox.Take) error {
	_, err := tx.ExecContext(ctx, "UPDATE triggers SET taken = ?, process = ? WHERE taker = ? AND state = 'processing' AND agent = ?",
		millis(t.Now), t.Process, t.Taker, t.Agent)
	return err
}

// comeBack makes triggers pending again whose visibility timeout is over, or whose process has
// ended. One taken in the future, by a clock that was wrong then, counts as taken now.
func comeBack(ctx context.Context, tx *tx, t inbox.Take) error {
	_, err := tx.ExecContext(ctx, "UPDATE triggers SET taken = ?1 WHERE agent = ?2 AND state = 'processing' AND taken > ?1", millis(t.Now), t.Agent)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		UPDATE triggers SET state = 'pending', taker = '', process = ''
		 WHERE agent = ? AND state = 'processing' AND taken <= ?`, t.Agent, millis(t.Now.Add(-t.Visibility)))
	for _, process := range t.Gone {
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `
			UPDATE triggers SET state = 'pending', taker = '', process = ''
			 WHERE agent = ? AND state = 'processing' AND process = ?`, t.Agent, process)
	}
	return err
}

// taken stores that a trigger is handed out, and fills in what is known only now.
func taken(ctx context.Context, tx *tx, out *inbox.Trigger, t inbox.Take) error {
	if out.Type == inbox.TasksAvailable {
		out.Count, out.At = t.Available, t.At
	}
	body, err := json.Marshal(triggerBody{*out, task.BodyOf(out.Task)})
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		UPDATE triggers SET state = 'processing', taken = ?, taker = ?, process = ?, body = ? WHERE id = ?`,
		millis(t.Now), t.Taker, t.Process, string(body), out.ID)
	return err
}

// ReturnTriggers makes the triggers that a poll took pending again, because its answer reached
// nobody.
func (j *Journal) ReturnTriggers(ctx context.Context, taker string) error {
	err := j.write(ctx, func(tx *tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE triggers SET state = 'pending', taker = '', process = '' WHERE taker = ? AND state = 'processing'", taker)
		return err
	})
	return j.failed(err, "returning triggers")
}

// Waiting returns what is in an agent's inbox.
func (j *Journal) Waiting(ctx context.Context, agent string) (inbox.Waiting, error) {
	var w inbox.Waiting
	_, err := collect(ctx, j.readers, func(row scanner) (struct{}, error) {
		var pending bool
		var kind inbox.Type
		var process string
		var taken int64
		if err := row.Scan(&pending, &kind, &process, &taken); err != nil {
			return struct{}{}, err
		}
		switch {
		case pending && kind == inbox.TasksAvailable:
			w.Available = true
		case pending:
			w.Pending = true
			w.Count++
		default:
			if process != "" && !slices.Contains(w.Processes, process) {
				w.Processes = append(w.Processes, process)
			}
			if at := moment(taken); w.Oldest.IsZero() || at.Before(w.Oldest) {
				w.Oldest = at
			}
		}
		return struct{}{}, nil
	}, `
		SELECT state = 'pending', type, process, taken FROM triggers WHERE agent = ? AND state <> 'acknowledged'`, agent)
	return w, j.failed(err, "reading the inbox of %s", agent)
}

// TriggerAgents returns the agent of each trigger, by id. It leaves out unknown ids.
func (j *Journal) TriggerAgents(ctx context.Context, ids []string) (map[string]string, error) {
	agents := make(map[string]string)
	for _, id := range ids {
		agent, err := scanString(j.readers.QueryRowContext(ctx, "SELECT agent FROM triggers WHERE id = ?", id))
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, j.failed(err, "reading trigger %q", id)
		}
		agents[id] = agent
	}
	return agents, nil
}

// AckTriggers acknowledges an agent's triggers. Doing so again changes nothing. It returns the
// ids that are not the agent's.
func (j *Journal) AckTriggers(ctx context.Context, agent string, ids []string) (unknown []string, err error) {
	err = j.writeMany(ctx, len(ids), func(tx *tx) error {
		unknown = nil
		for _, id := range ids {
			n, err := affect(ctx, tx, "UPDATE triggers SET state = 'acknowledged', process = '' WHERE id = ? AND agent = ?", id, agent)
			if err != nil {
				return err
			}
			if n == 0 {
				unknown = append(unknown, id)
			}
		}
		return nil
	})
	return unknown, j.failed(err, "acknowledging triggers of %s", agent)
}

// AddTriggers stores the triggers that were not stored before, and returns how many.
func (j *Journal) AddTriggers(ctx context.Context, triggers ...inbox.Trigger) (added int, err error) {
	err = j.writeMany(ctx, len(triggers), func(tx *tx) (err error) {
		added, err = insertTriggers(ctx, tx, triggers...)
		return err
	})
	return added, j.failed(err, "storing triggers")
}

// triggerBody is the JSON in a trigger's row.
type triggerBody struct {
	inbox.Trigger
	Task task.Body `json:"task"` // instead of Trigger.Task
}

func scanTrigger(row scanner) (inbox.Trigger, error) {
	b, err := scanBody[triggerBody](row, "trigger")
	b.Trigger.Task = b.Task.Whole()
	return b.Trigger, err
}

// insertTriggers stores each trigger once: it skips those whose key was ever stored for the
// agent. Of triggers for available tasks an agent has at most one pending.
func insertTriggers(ctx context.Context, tx *tx, triggers ...inbox.Trigger) (added int, err error) {
	for _, t := range triggers {
		if t.ID == "" {
			t.ID = inbox.NewID(t.At)
		}
		if t.Key == "" {
			t.Key = t.ID
		}
		if t.Type == inbox.TasksAvailable {
			var pending bool
			err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM triggers WHERE agent = ? AND state <> 'acknowledged' AND state = 'pending' AND type = ?)", t.Agent, t.Type).Scan(&pending)
			if err != nil {
				return added, err
			}
			if pending {
				continue
			}
		}
		body, err := json.Marshal(triggerBody{t, task.BodyOf(t.Task)})
		if err != nil {
			return added, err
		}
		n, err := affect(ctx, tx, `
			INSERT INTO triggers (id, agent, key, type, rank, at, body) VALUES (?, ?, ?, ?, ?, ?, ?)
			    ON CONFLICT (agent, key) DO NOTHING`,
			t.ID, t.Agent, t.Key, t.Type, t.Type.Rank(), max(millis(t.At), millis(time.Now())), string(body))
		if err != nil {
			return added, err
		}
		added += int(n)
	}
	return added, nil
}

// SetLeads sets the agents that the configuration subscribes to finished tasks.
func (j *Journal) SetLeads(ctx context.Context, names []string) error {
	err := j.write(ctx, func(tx *tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE pollers SET lead = 0 WHERE lead = 1"); err != nil {
			return err
		}
		for _, name := range names {
			_, err := tx.ExecContext(ctx, "INSERT INTO pollers (agent, lead) VALUES (?, 1) ON CONFLICT (agent) DO UPDATE SET lead = 1", name)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return j.failed(err, "storing the leads")
}

// Known returns the agents that poll, or have a claim.
func (j *Journal) Known(ctx context.Context) ([]string, error) {
	polling, err := collect(ctx, j.readers, scanString, "SELECT agent FROM pollers")
	if err != nil {
		return nil, j.failed(err, "reading who polls")
	}
	holding, err := collect(ctx, j.readers, scanString, "SELECT agent FROM claims WHERE "+unended)
	return append(polling, holding...), j.failed(err, "reading who has claims")
}

// Offers returns the open offers.
func (j *Journal) Offers(ctx context.Context) ([]inbox.Offer, error) {
	_, offers, err := list[inbox.Offer](ctx, j.readers, kindOffer)
	return offers, j.failed(err, "reading the offers")
}

// EndOffer deletes the offer of a task, and stores the triggers that go with that.
func (j *Journal) EndOffer(ctx context.Context, id task.ID, news ...inbox.Trigger) error {
	err := j.write(ctx, func(tx *tx) error {
		if err := endOffer(ctx, tx, id); err != nil {
			return err
		}
		_, err := insertTriggers(ctx, tx, news...)
		return err
	})
	return j.failed(err, "ending the offer of task %s", id)
}

// endOffer deletes an offer. Its trigger is dropped if it is still pending.
func endOffer(ctx context.Context, tx *tx, id task.ID) error {
	o, ok, err := find[inbox.Offer](ctx, tx, kindOffer, string(id))
	if err != nil || !ok {
		return err
	}
	if err := kindOffer.drop(ctx, tx, string(id)); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "UPDATE triggers SET state = 'acknowledged' WHERE id = ? AND state = 'pending'", o.ID)
	return err
}

// Questions returns the open questions of agents.
func (j *Journal) Questions(ctx context.Context) ([]inbox.Question, error) {
	_, questions, err := list[inbox.Question](ctx, j.readers, kindQuestion)
	return questions, j.failed(err, "reading the questions")
}

// SetQuestion deletes a question if it is over, else stores it as q, and adds triggers for its
// agent. It does nothing if another question was asked about the task since.
func (j *Journal) SetQuestion(ctx context.Context, q inbox.Question, over bool, news ...inbox.Trigger) (added int, err error) {
	err = j.write(ctx, func(tx *tx) error {
		known, ok, err := find[inbox.Question](ctx, tx, kindQuestion, string(q.Task))
		if err != nil || !ok || known.ID != q.ID {
			return err
		}
		if over {
			err = kindQuestion.drop(ctx, tx, string(q.Task))
		} else {
			err = kindQuestion.put(ctx, tx, string(q.Task), q.Agent, q)
		}
		if err != nil {
			return err
		}
		added, err = insertTriggers(ctx, tx, news...)
		return err
	})
	return added, j.failed(err, "storing what became of a question about task %s", q.Task)
}

// storeQuestion stores the question that a fact asks, if it asks one, in place of an earlier one
// about the task.
func storeQuestion(ctx context.Context, tx *tx, e claim.Fact) error {
	q, ok := inbox.Asked(e)
	if !ok {
		return nil
	}
	return kindQuestion.put(ctx, tx, string(q.Task), q.Agent, q)
}
