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

// makeTables makes the tables where there are none.
func (j *Journal) makeTables(ctx context.Context) error {
	return j.writeAlone(ctx, func(tx *tx) error {
		if err := j.engine.make(ctx, tx); err != nil {
			return err
		}
		return setMeta(ctx, tx, metaSchema, fingerprint(j.engine.schema()))
	})
}

// made reports whether the journal has its tables. If it has others than this program makes,
// that is an error.
func (j *Journal) made(ctx context.Context) (bool, error) {
	tables, known, err := j.engine.tables(ctx, j.readers)
	if err != nil || tables == 0 {
		return false, err
	}
	if known > 0 {
		made, err := readMeta(ctx, j.readers, metaSchema)
		if err != nil || made == fingerprint(j.engine.schema()) {
			return true, err
		}
	}
	return true, fmt.Errorf("%s has another schema than this dibs makes: %s", j.engine, j.engine.foreign())
}
