// Dashboards checks that files are dashboards as Grafana's schema describes them: it refuses unknown and missing fields, also
// in the options of panels and in queries. It is a module of its own, because only a test of deploy needs the schema.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	plugins.RegisterDefaultPlugins()
	failed := false
	for _, file := range os.Args[1:] {
		if err := check(file); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// check returns the differences of a file from the schema.
func check(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var d dashboard.Dashboard
	for _, differences := range []error{d.UnmarshalJSONStrict(text), d.Validate()} {
		if differences != nil && differences.Error() != "" { // an empty list is no nil error
			return differences
		}
	}
	if d.Uid == nil || d.Title == nil || len(d.Panels) == 0 {
		return errors.New("it has no uid, title or panels")
	}
	return nil
}
