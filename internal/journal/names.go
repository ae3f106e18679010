package journal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"dibs/internal/task"
)

// mintTries is how many names are tried before minting fails.
const mintTries = 100

// keptNames is how many names are kept for one user. The ones asked for longest ago are
// forgotten first, except those with claims.
const keptNames = 10_000

// unusedName is a condition on rows of names: since ?1 nobody asked for the name or polled under it,
// and it has no claim.
const unusedName = `used < ?1
	AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.agent = names.name AND claims.` + unended + `)
	AND NOT EXISTS (SELECT 1 FROM pollers WHERE pollers.agent = names.name AND pollers.polled >= ?1)`

// SessionName returns the name minted for a user's session, and when it was last asked for. It is
// empty if there is none, or if the session was not heard of since gone.
func (j *Journal) SessionName(ctx context.Context, uid int, session string, gone time.Time) (name string, used time.Time, err error) {
	var at int64
	err = j.readers.QueryRowContext(ctx, `
		SELECT name, used FROM names WHERE uid = ?2 AND session = ?3 AND session <> '' AND NOT (`+unusedName+`)`,
		gone.UnixMilli(), uid, session).Scan(&name, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return "", time.Time{}, nil
	}
	return name, moment(at), j.failed(err, "reading the name of a session")
}

// MintName returns the session's name, or mints a new one that the journal does not know and
// m.Free agrees to. It forgets the names of sessions that are gone. The error is a
// *task.NamesTakenError if all names tried are taken.
func (j *Journal) MintName(ctx context.Context, m task.Mint) (name string, minted bool, err error) {
	err = j.write(ctx, func(tx *tx) error {
		name, minted = "", false
		_, err := tx.ExecContext(ctx, "DELETE FROM names WHERE "+unusedName, m.Gone.UnixMilli())
		if err != nil {
			return err
		}
		if m.Session != "" {
			name, err = scanString(tx.QueryRowContext(ctx, "SELECT name FROM names WHERE uid = ? AND session = ? AND session <> ''", m.UID, m.Session))
			switch {
			case errors.Is(err, sql.ErrNoRows):
			case err != nil:
				return err
			case m.Usable(name):
				_, err = tx.ExecContext(ctx, "UPDATE names SET used = ?, nth = "+nextRequest+" WHERE name = ?", m.Now.UnixMilli(), m.UID, name)
				return err
			default:
				if err := disown(ctx, tx, name); err != nil {
					return err
				}
			}
		}
		for range mintTries {
			name = m.Next()
			free, err := unknownName(ctx, tx, name)
			if err != nil {
				return err
			}
			if free && m.Free(name) {
				minted = true
				return keepName(ctx, tx, name, m)
			}
		}
		return &task.NamesTakenError{Tried: mintTries}
	})
	return name, minted, j.failed(err, "minting a name that begins with %s", task.NamePrefix)
}

// disown takes a name from its session. The name stays taken.
func disown(ctx context.Context, tx *tx, name string) error {
	_, err := tx.ExecContext(ctx, "UPDATE names SET session = '' WHERE name = ?", name)
	return err
}

// nextRequest is an expression for the number of user ?'s next request for a name.
const nextRequest = "(SELECT coalesce(max(nth), 0) + 1 FROM names WHERE uid = ?)"

// keepName stores a new name, and forgets the user's oldest ones beyond keptNames.
func keepName(ctx context.Context, tx *tx, name string, m task.Mint) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO names (name, uid, session, used, nth) VALUES (?, ?, ?, ?, "+nextRequest+")",
		name, m.UID, m.Session, m.Now.UnixMilli(), m.UID)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		DELETE FROM names
		 WHERE uid = ?1 AND nth <= (SELECT max(nth) FROM names WHERE uid = ?1) - ?2
		   AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.agent = names.name AND claims.`+unended+`)`,
		m.UID, keptNames)
	return err
}

// unknownName reports whether the journal knows no agent of that name.
func unknownName(ctx context.Context, tx *tx, name string) (free bool, err error) {
	err = tx.QueryRowContext(ctx, `
		SELECT NOT EXISTS (SELECT 1 FROM names WHERE name = ?1)
		   AND NOT EXISTS (SELECT 1 FROM claims WHERE agent = ?1)
		   AND NOT EXISTS (SELECT 1 FROM pollers WHERE agent = ?1)
		   AND NOT EXISTS (SELECT 1 FROM triggers WHERE agent = ?1)`, name).Scan(&free)
	return free, err
}
