package bus

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"
)

// deniedMost bounds how many subjects are remembered as not permitted, twice: what was noticed
// last is always among it.
const deniedMost = 4096

// violation is how the broker says what it does not permit.
var violation = regexp.MustCompile(`(?i)violation for (publish|subscription) to "([^"]+)"`)

// denials remembers what the broker does not permit. It says so apart from the request, and
// the request is never answered.
type denials struct {
	mu     sync.Mutex
	when   map[string]time.Time // by subject
	before map[string]time.Time // those of earlier
	inbox  time.Time            // answers are not permitted
	said   map[string]bool      // what was logged, by permission
	news   chan struct{}        // closed at the next denial; nil: nobody waits
}

// record takes in what the connection reports, and reports whether it was a denial. Each
// permission that is missing is logged once, before a call fails for it.
func (d *denials) record(err error, log *slog.Logger) bool {
	found := violation.FindStringSubmatch(err.Error())
	if found == nil {
		return false
	}
	verb, subject := strings.ToLower(found[1]), found[2]
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.when == nil || len(d.when) >= deniedMost {
		d.when, d.before, d.said = make(map[string]time.Time), d.when, make(map[string]bool)
	}
	d.when[subject] = time.Now()
	if d.news != nil {
		close(d.news)
		d.news = nil
	}
	if verb == "subscription" && strings.HasPrefix(subject, inbox+".") {
		d.inbox = time.Now()
	}
	if need := permission(verb, subject); !d.said[need] {
		d.said[need] = true
		log.Error("the NATS user lacks a permission; grant it to the user, and it is used at once", "permission", need)
	}
	return true
}

// consumers are what JetStream is asked about consumers, whose names are made up each time.
var consumers = regexp.MustCompile(`^(\$JS\.API\.CONSUMER\.(?:CREATE|DELETE|INFO|MSG\.NEXT)\.[^.]+)\..+$`)

// permission is what to grant.
func permission(verb, subject string) string {
	if verb == "subscription" {
		if strings.HasPrefix(subject, inbox+".") {
			subject = inbox + ".>"
		}
		return "subscribe to " + subject
	}
	if strings.HasPrefix(subject, strings.TrimSuffix(alertSubjects, ">")) {
		subject = alertSubjects
	}
	return "publish on " + consumers.ReplaceAllString(subject, "$1.*")
}

// next is closed when something is denied after now.
func (d *denials) next() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.news == nil {
		d.news = make(chan struct{})
	}
	return d.news
}

// explain makes ErrDenied of a silence since begun that was a denial: of one of the subjects
// that were published on, which may have wildcards, or of answers.
func (d *denials) explain(err error, begun time.Time, subjects ...string) error {
	if !noAnswer(err) {
		return err
	}
	if denied := d.since(begun, subjects...); denied != nil {
		return denied
	}
	return err
}

// since returns ErrDenied if one of the subjects, or answers, were denied since begun.
func (d *denials) since(begun time.Time, subjects ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	need := ""
	if d.inbox.After(begun) {
		need = permission("subscription", inbox+".>")
	}
	for _, s := range subjects {
		if denied := d.deniedAs(s, begun); denied != "" {
			need = permission("publish", denied)
		}
	}
	if need == "" {
		return nil
	}
	return fmt.Errorf("%w: %s; grant it to the NATS user", ErrDenied, need)
}

// deniedAs is a subject denied since begun that is the one given, or that its wildcards take
// in; empty: there is none. The caller holds the lock.
func (d *denials) deniedAs(subject string, begun time.Time) string {
	for _, known := range []map[string]time.Time{d.before, d.when} {
		if known[subject].After(begun) {
			return subject
		}
		if !strings.ContainsAny(subject, "*>") {
			continue
		}
		for denied, at := range known {
			if at.After(begun) && covers(denied, []string{subject}) {
				return denied
			}
		}
	}
	return ""
}

// streamAPI is the subject of a request about a stream.
func streamAPI(verb, stream string) string { return "$JS.API.STREAM." + verb + "." + stream }

// consumerAPI are the subjects of requests about consumers of a stream.
func consumerAPI(verb, stream string) string { return "$JS.API.CONSUMER." + verb + "." + stream + ".*" }
