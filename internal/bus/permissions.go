package bus

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/micro"
)

// deniedMost bounds the remembered denied subjects per generation. Of the two generations, the newest denials are
// always kept.
const deniedMost = 4096

// violation matches the broker's message about a missing permission.
var violation = regexp.MustCompile(`(?i)violation for (publish|subscription) to "([^"]+)"`)

// denials remembers the broker's denials. The broker reports a denial separately, and does not answer the request.
type denials struct {
	replies string // prefix of the subjects of replies
	alerts  string // prefix of the subjects of alerts

	mu      sync.Mutex
	when    map[string]time.Time // by subject
	before  map[string]time.Time // the previous generation
	inbox   time.Time            // time of a denied subscription to replies
	logged  map[string]bool      // permissions already logged
	changed chan struct{}        // closed at the next denial; nil: no waiters
}

// record records an error of the connection if it is a denial, and reports that. Each missing permission is logged
// once, before a call fails for it.
func (d *denials) record(err error, log *slog.Logger) bool {
	found := violation.FindStringSubmatch(err.Error())
	if found == nil {
		return false
	}
	verb, subject := strings.ToLower(found[1]), found[2]
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.when == nil || len(d.when) >= deniedMost {
		d.when, d.before, d.logged = make(map[string]time.Time), d.when, make(map[string]bool)
	}
	d.when[subject] = time.Now()
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
	if verb == "subscription" && strings.HasPrefix(subject, d.replies) {
		d.inbox = time.Now()
	}
	if need := d.permission(verb, subject); !d.logged[need] {
		d.logged[need] = true
		log.Error("the NATS user lacks a permission; grant it to the user, and it is used at once", "permission", need)
	}
	return true
}

// consumers matches requests about consumers, because their names are random.
var consumers = regexp.MustCompile(`^(\$JS\.API\.CONSUMER\.(?:CREATE|DELETE|INFO|MSG\.NEXT)\.[^.]+)\..+$`)

// permission names the permission to grant.
func (d *denials) permission(verb, subject string) string {
	if verb == "subscription" {
		if strings.HasPrefix(subject, d.replies) {
			subject = d.replies + ">"
		} else if strings.HasPrefix(subject, micro.APIPrefix+".") {
			subject = micro.APIPrefix + ".>"
		}
		return "subscribe to " + subject
	}
	if strings.HasPrefix(subject, d.alerts) {
		subject = d.alerts + ">"
	}
	return "publish on " + consumers.ReplaceAllString(subject, "$1.*")
}

// next returns a channel that is closed at the next denial.
func (d *denials) next() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed == nil {
		d.changed = make(chan struct{})
	}
	return d.changed
}

// explain returns ErrDenied in place of a timeout that a denial since begun caused: of one of the published subjects,
// which may have wildcards, or of replies.
func (d *denials) explain(err error, begun time.Time, subjects ...string) error {
	if !noAnswer(err) {
		return err
	}
	if denied := d.since(begun, subjects...); denied != nil {
		return denied
	}
	return err
}

// since returns ErrDenied if one of the subjects, or replies, were denied since begun.
func (d *denials) since(begun time.Time, subjects ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	need := ""
	if d.inbox.After(begun) {
		need = d.permission("subscription", d.replies)
	}
	for _, s := range subjects {
		if denied := d.deniedAs(s, begun); denied != "" {
			need = d.permission("publish", denied)
		}
	}
	if need == "" {
		return nil
	}
	return fmt.Errorf("%w: %s; grant it to the NATS user", ErrDenied, need)
}

// deniedAs returns the subject denied since begun that equals the given one or matches its wildcards, or an empty
// string. The caller holds the lock.
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

// streamAPI returns the subject of a request about a stream.
func streamAPI(verb, stream string) string { return "$JS.API.STREAM." + verb + "." + stream }

// consumerAPI returns the subjects of requests about consumers of a stream.
func consumerAPI(verb, stream string) string { return "$JS.API.CONSUMER." + verb + "." + stream + ".*" }
