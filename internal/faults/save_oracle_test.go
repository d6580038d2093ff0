package faults

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Saved is a change that a client made over HTTP with a successful response.
type Saved struct {
	Kind string // one of the constants below
	Name string // identifies the saved object
	At   time.Time
}

// The kinds of changes, in the words of the report about a database that went back.
const (
	SavedRule = "rules"            // Name is a part of its document
	SavedJob  = "jobs"             // Name is its key
	Cancelled = "cancellations"    // Name is the key of the job
	Acked     = "acknowledgements" // Name is the id of the alert
)

// ByHand is the rule of the jobs created by clients. ByClients is the prefix of its name and of all rules saved by
// clients.
const (
	ByHand    = ByClients + "by-hand"
	ByClients = "client-"
)

// CheckSaves checks that the database has all saved changes. If it lost commits in a failover, an alert must report every
// lost change and the lost alerts. lost is their number.
func (c *Checker) CheckSaves(ctx context.Context, all []Saved) (lost int, err error) {
	there, err := c.saved(ctx)
	if err != nil {
		return 0, err
	}
	published, err := c.Stream(ctx)
	if err != nil {
		return 0, err
	}
	var breaches []string
	breach := func(format string, args ...any) { breaches = append(breaches, fmt.Sprintf(format, args...)) }
	reports := slices.DeleteFunc(slices.Clone(published), func(s PublishedAlert) bool {
		return s.Rule != own || s.Key != "database" || s.Step != "restored" || s.Status != "firing"
	})
	for _, s := range all {
		switch {
		case there(s):
		case !c.Lossy || s.At.After(c.FailedOver):
			breach("P6: %s: %q was saved at %s, and is not in the database", s.Kind, s.Name, s.At.UTC().Format(clock))
		default:
			lost++
			if !slices.ContainsFunc(reports, func(r PublishedAlert) bool { return r.names(s) }) {
				breach("P13: %s: %q was saved at %s and is lost, and none of %d reports names it", s.Kind, s.Name, s.At.UTC().Format(clock), len(reports))
			}
		}
	}
	if !c.Lossy {
		for _, r := range reports {
			breach("P13: alert %s reports that the database went back, and it did not: %s", r.ID, r.Text)
		}
		return 0, join(breaches)
	}
	known, err := c.decisions(ctx)
	if err != nil {
		return lost, err
	}
	unknown, reported := 0, 0
	for _, s := range published {
		if _, ok := known[s.ID]; !ok {
			unknown++
		}
	}
	for _, r := range reports {
		reported += r.Count
	}
	if unknown > reported {
		breach("P13: the stream has %d alerts that the database lost, and alerts report %d", unknown, reported)
	}
	return lost + unknown, join(breaches)
}

// state matches the state that the database went back to, in a report.
var state = regexp.MustCompile(`went back to its state of ([^ ,]+), (?:detected|restored) at`)

// names reports whether a report covers a lost change: it names its kind, and the change is later than the state that
// the database went back to.
func (s PublishedAlert) names(lost Saved) bool {
	found := state.FindStringSubmatch(s.Text)
	if found == nil || !strings.Contains(s.Text, lost.Kind) {
		return false
	}
	at, err := time.Parse(time.RFC3339, found[1])
	return err == nil && at.Before(lost.At)
}

// saved returns a function that reports whether the database has a change.
func (c *Checker) saved(ctx context.Context) (there func(Saved) bool, err error) {
	read := func(query string) (all []string) {
		if err != nil {
			return nil
		}
		rows, failed := c.DB.QueryContext(ctx, query)
		if err = failed; err != nil {
			return nil
		}
		defer rows.Close()
		for rows.Next() {
			var one string
			if err = rows.Scan(&one); err != nil {
				return nil
			}
			all = append(all, one)
		}
		err = rows.Err()
		return all
	}
	const byHand = ` JOIN rule r ON r.id = j.rule_id WHERE r.name = '` + ByHand + `'`
	documents := strings.Join(read(`SELECT document FROM rule_version`), "\n")
	cancelled := read(`SELECT j.key FROM history j` + byHand + ` AND j.outcome = 'cancelled'`)
	keys := slices.Concat(read(`SELECT j.key FROM future_job j`+byHand), read(`SELECT j.key FROM history j`+byHand))
	acked := read(`SELECT alert_id FROM acknowledgement`)
	return func(s Saved) bool {
		switch s.Kind {
		case SavedRule:
			return strings.Contains(documents, s.Name)
		case SavedJob:
			return slices.Contains(keys, s.Name)
		case Cancelled:
			return slices.Contains(cancelled, s.Name)
		}
		return slices.Contains(acked, s.Name)
	}, err
}
