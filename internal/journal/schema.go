package journal

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// What makes the tables of a new journal, in each database.
var (
	//go:embed schema/sqlite.sql
	sqliteSchema string
	//go:embed schema/postgres.sql
	postgresSchema string
)

// metaSchema is the key under which a journal keeps the fingerprint of its schema.
const metaSchema = "schema"

var remark = regexp.MustCompile(`--[^\n]*`)

// fingerprint tells schemas apart by what they say, not by their remarks and layout.
func fingerprint(schema string) string {
	said := strings.Join(strings.Fields(remark.ReplaceAllString(schema, "")), " ")
	sum := sha256.Sum256([]byte(said))
	return hex.EncodeToString(sum[:8])
}

// makeTables makes the tables where there are none, by a script that does.
func makeTables(ctx context.Context, tx *tx, e store, script string) error {
	if err := tx.script(script); err != nil {
		return err
	}
	return setMeta(ctx, tx, metaSchema, fingerprint(e.schema()))
}

// made reports whether a journal has its tables. If it has others than this program makes,
// that is an error.
func made(ctx context.Context, e store, readers *pool) (bool, error) {
	tables, known, err := e.tables(ctx, readers)
	if err != nil || tables == 0 {
		return false, err
	}
	if known > 0 {
		made, err := readMeta(ctx, readers, metaSchema)
		if err != nil || made == fingerprint(e.schema()) {
			return true, err
		}
	}
	return true, fmt.Errorf("%s has another schema than this dibs makes: %s", e, e.foreign())
}
