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

// schemaSQL makes the tables of a new journal.
//
//go:embed schema/sqlite.sql
var schemaSQL string

// metaSchema is the key under which a journal keeps the fingerprint of its schema.
const metaSchema = "schema"

// schemaPrint is the fingerprint of a journal that this program made.
var schemaPrint = fingerprint(schemaSQL)

var remark = regexp.MustCompile(`--[^\n]*`)

// fingerprint tells schemas apart by what they say, not by their remarks and layout.
func fingerprint(schema string) string {
	said := strings.Join(strings.Fields(remark.ReplaceAllString(schema, "")), " ")
	sum := sha256.Sum256([]byte(said))
	return hex.EncodeToString(sum[:8])
}

// makeTables makes the tables of a file that has none.
func (j *Journal) makeTables(ctx context.Context) error {
	return j.writeAlone(ctx, func(tx *tx) error {
		if err := tx.script(schemaSQL); err != nil {
			return err
		}
		return setMeta(ctx, tx, metaSchema, schemaPrint)
	})
}

// made reports whether the file has its tables. If it has others than this program makes,
// that is an error.
func (j *Journal) made(ctx context.Context) (bool, error) {
	var tables, known int
	err := j.readers.DB.QueryRowContext(ctx, "SELECT count(*), count(*) FILTER (WHERE type = 'table' AND name = 'meta') FROM sqlite_schema").Scan(&tables, &known)
	if err != nil || tables == 0 {
		return false, err
	}
	if known > 0 {
		made, err := readMeta(ctx, j.readers, metaSchema)
		if err != nil || made == schemaPrint {
			return true, err
		}
	}
	return true, fmt.Errorf("%s has another schema than this dibs makes: %s", j.path, adviceSchema)
}
