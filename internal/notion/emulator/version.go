package emulator

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// version is a Notion-Version.
type version string

// The supported versions, in ascending order.
const (
	version2022 version = "2022-06-28"
	version2025 version = "2025-09-03"
	version2026 version = "2026-03-11"
)

var versions = []version{version2022, version2025, version2026}

// hasSources reports whether databases have data sources in the version.
func (v version) hasSources() bool { return v >= version2025 }

// trashOnly reports whether in_trash has replaced archived.
func (v version) trashOnly() bool { return v >= version2026 }

// spoken decodes Options.Versions.
func spoken(names []string) ([]version, error) {
	if len(names) == 0 {
		return versions, nil
	}
	var all []version
	for _, v := range versions {
		if slices.Contains(names, string(v)) {
			all = append(all, v)
		}
	}
	for _, name := range names {
		if !slices.Contains(versions, version(name)) {
			return nil, fmt.Errorf("no version of the API is called %q: want %s", name, orList(versions))
		}
	}
	return all, nil
}

// SetVersions changes Options.Versions.
func (e *Emulator) SetVersions(names ...string) error {
	all, err := spoken(names)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.versions = all
	return nil
}

// parseVersion returns the version of a request, which must be accepted.
func (e *Emulator) parseVersion(h http.Header) (version, error) {
	v := version(h.Get("Notion-Version"))
	e.mu.Lock()
	accepted := e.versions
	e.mu.Unlock()
	switch {
	case slices.Contains(accepted, v):
		return v, nil
	case v == "":
		return "", &apiError{
			status:  http.StatusBadRequest,
			code:    "missing_version",
			message: "Notion-Version header failed validation: Notion-Version header should be defined, instead was `undefined`.",
		}
	}
	return "", invalid("Notion-Version header failed validation: Notion-Version header should be %s, instead was `%q`.", orList(accepted), v)
}

// orList formats alternatives as Notion's messages do.
func orList[T ~string](all []T) string {
	var quoted []string
	for _, v := range all {
		quoted = append(quoted, fmt.Sprintf("`%q`", v))
	}
	if last := len(quoted) - 1; last > 1 {
		return strings.Join(quoted[:last], ", ") + ", or " + quoted[last]
	}
	return strings.Join(quoted, " or ")
}
