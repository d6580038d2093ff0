package configfile_test

import (
	"testing"

	"deadman/internal/configfile"
)

func TestSuggest(t *testing.T) {
	known := []string{"rule", "entity", "key", "cursor", "limit", "due_after", "due_before"}
	for name, want := range map[string]string{
		"limt": "limit", "rules": "rule", "due_befor": "due_before", "keys": "key", "entty": "entity",
		"wobble": "", "": "", "x": "",
	} {
		if got := configfile.Suggest(name, known); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
}
