package config_test

import (
	"strings"
	"testing"

	"dibs/config"
)

// TestInsecure checks that the token goes to no other machine unencrypted by default, and that
// errors show no secret from a URL.
func TestInsecure(t *testing.T) {
	const unencrypted, user = "unencrypted", "a user or a password in a URL"
	for base, want := range map[string]string{
		"https://notion.example":                     "",
		"http://127.0.0.1:8787":                      "",
		"http://[::1]:8787":                          "",
		"http://localhost:8787/notion":               "",
		"http://notion.example":                      unencrypted,
		"http://192.168.0.7:8787":                    unencrypted,
		"http://localhost.example":                   unencrypted,
		"https://ann:s3cret@notion.example":          user,
		"https://s3cret@notion.example":              user,
		"http://ann:s3cret@127.0.0.1":                user,
		"ftp://ann:s3cret@notion.example":            "is not an http or https URL",
		"ann:s3cret@notion.example":                  "is not an http or https URL",
		"https:ann:s3cret@notion.example":            "is not an http or https URL",
		"https:/ann:s3cret@notion.example":           "is not an http or https URL",
		"https://ann:x/s3cret@notion.example":        "is not an http or https URL",
		"https://ann:s3cret?x@notion.example":        "is not an http or https URL",
		"https://ann:x#s3cret@notion.example":        "is not an http or https URL",
		"https://ann:s3cret@notion.example:x/%zz":    "is not an http or https URL",
		"http://notion.example/?token=s3cret#s3cret": unencrypted,
	} {
		c := config.Default()
		c.Notion.BaseURL = base
		err := c.Validate()
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %v, want %q", base, err, want)
		}
		c.Notion.Insecure = true
		if err := c.Validate(); (err == nil) != (want == "" || want == unencrypted) {
			t.Errorf("%s, insecure: %v", base, err)
		}
	}
	c := config.Default()
	c.Databases.Tasks = "https://ann:s3cret@www.notion.so/x?token=s3cret"
	if err := c.Validate(); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("databases.tasks: %v", err)
	}
}
