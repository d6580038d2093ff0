package calendars_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/calendars"
)

// The texts of a file keep their comments. A text that is not on lines of its own is written anew.
func TestTexts(t *testing.T) {
	const file = "# of the company\ncalendars:\n  office: # head office\n    zone: Europe/Berlin # since 1990\n    hours:\n      mon-thu: \"09:00-17:30\"\n\n      fri: 09:00-15:00\n    # none yet\n\n" +
		"  shop: {zone: Europe/Paris, days: \"tue-fri, sun\", hours: \"10:00-19:00\"}\n  split: {zone: UTC,\n    days: mon}\n  \"quoted\": {zone: UTC, days: mon}\n# the end\n"
	got, err := calendars.Texts([]byte(file), "")
	want := map[string]string{
		"office": "zone: Europe/Berlin # since 1990\nhours:\n  mon-thu: \"09:00-17:30\"\n\n  fri: 09:00-15:00\n# none yet\n",
		"shop":   "{zone: Europe/Paris, days: \"tue-fri, sun\", hours: \"10:00-19:00\"}\n",
		"split":  "{zone: UTC,\n    days: mon}\n",
		"quoted": "zone: UTC\nhours:\n  mon: \"00:00-24:00\"\n",
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for name, text := range want {
		again, err := calendars.Texts([]byte(calendars.FileOf(name, text)), "")
		if diff := cmp.Diff(map[string]string{name: text}, again); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	if _, err := calendars.Texts([]byte("calendars: {office: {zone: Berlin}}"), ""); err == nil {
		t.Error("an invalid file has texts")
	}
}
