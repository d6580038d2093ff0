// Package doctor inspects what a node depends on: settings, files, database, broker, sources and machine. It finds what
// would stop a node, lose data or hide a failure, before an incident does. It changes nothing and starts no node.
package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"deadman/server"
)

// State is the result of a check.
type State string

// States of a check, from the best to the worst.
const (
	OK      State = "ok"
	Warning State = "warning" // a node works, and an incident costs more than it has to
	Unknown State = "unknown" // the check could not be made
	Failed  State = "failed"  // a node does not start, or loses data
)

// Finding is the result of a check.
type Finding struct {
	Check  string `json:"check"` // such as "database replication"
	State  State  `json:"state"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"` // empty: none is needed
}

// The limits of the checks.
const (
	checkTimeout   = 15 * time.Second // of the checks of the database, of the broker, and of each source
	maxTransaction = 10 * time.Minute
	maxSkew        = 2 * time.Second     // difference of two clocks, beyond the uncertainty of its measurement
	minValidity    = 30 * 24 * time.Hour // remaining validity of a certificate
	minFreeShare   = 0.1                 // free part of a disk
	minFreeBytes   = 1 << 30             // free bytes of a disk
)

// inspection collects the findings about the configuration of a node.
type inspection struct {
	server.Config
	now      func() time.Time
	longest  time.Duration // age at which an open transaction is a problem
	waiting  []waitingRule // of the folder of rules, and of the database
	names    []string      // of these rules
	subjects []string      // that these rules read, each once
	database string        // id of the database; empty: not known
	unread   bool          // the embedded database may have rules that are not among these
	findings []Finding
}

// Inspect makes all checks, one after the other, and returns their findings in this order. It takes at most a minute, and
// the time of the sources.
func Inspect(ctx context.Context, c server.Config) []Finding {
	i := &inspection{Config: c.WithDefaults(), now: time.Now, longest: maxTransaction}
	settings(i)
	publicURL(ctx, i)
	files(i)
	certificates(i)
	rulesOfFolder(i)
	machine(i)
	database(ctx, i)
	broker(ctx, i)
	channels(ctx, i)
	return i.findings
}

// ok adds a finding without a problem.
func (i *inspection) ok(check, format string, args ...any) {
	i.findings = append(i.findings, Finding{Check: check, State: OK, Detail: fmt.Sprintf(format, args...)})
}

// problem adds a finding with a problem.
func (i *inspection) problem(check string, state State, detail, remedy string) {
	i.findings = append(i.findings, Finding{Check: check, State: state, Detail: detail, Remedy: remedy})
}

// room adds a finding about the free space of the disk of a folder, or about the error in reading it.
func (i *inspection) room(folder string, free, all uint64, err error) {
	switch {
	case err != nil:
		i.problem("disk", Unknown, fmt.Sprintf("%s: %v", folder, err), "let the user read the data folder")
	case free < minFreeBytes || float64(free) < minFreeShare*float64(all):
		i.problem("disk", Warning, fmt.Sprintf("%s of %s are free in %s", humanize.IBytes(free), humanize.IBytes(all), folder),
			"free space, or shorten DEADMAN_KEEP_HISTORY; without space nothing is ingested")
	default:
		i.ok("disk", "%s of %s are free in %s", humanize.IBytes(free), humanize.IBytes(all), folder)
	}
}

// skew adds a finding about a clock that was read between two times of this machine's clock.
func (i *inspection) skew(check, whose string, sent, there, received time.Time) {
	uncertain := received.Sub(sent) / 2
	ahead := there.Sub(sent.Add(uncertain))
	if max(ahead, -ahead)-uncertain > maxSkew {
		i.problem(check, Warning, fmt.Sprintf("the clock of %s and that of this machine differ by %s", whose, max(ahead, -ahead).Round(100*time.Millisecond)),
			"synchronize both by NTP; deadman goes by the database's clock, and logs and events have those of their machines")
		return
	}
	i.ok(check, "at most %s from this machine's", (max(ahead, -ahead) + uncertain).Round(time.Millisecond))
}

// validity adds a finding about the end of a certificate.
func (i *inspection) validity(check, whose string, end time.Time) {
	left := end.Sub(i.now())
	switch {
	case left <= 0:
		i.problem(check, Failed, fmt.Sprintf("%s expired at %s", whose, end.UTC().Format(time.DateTime)), "renew it")
	case left < minValidity:
		i.problem(check, Warning, fmt.Sprintf("%s expires in %d days, at %s", whose, int(left.Hours()/24), end.UTC().Format(time.DateTime)), "renew it")
	default:
		i.ok(check, "%s is valid until %s", whose, end.UTC().Format(time.DateOnly))
	}
}

// tlsOf adds a finding about the certificate of a connection.
func (i *inspection) tlsOf(check, whose string, conn net.Conn) {
	secured, ok := conn.(*tls.Conn)
	if !ok {
		return
	}
	if all := secured.ConnectionState().PeerCertificates; len(all) > 0 {
		i.validity(check, whose, all[0].NotAfter)
	}
}

// Worst returns the worst state of some findings; OK if there are none.
func Worst(findings []Finding) State {
	if len(findings) == 0 {
		return OK
	}
	order := []State{OK, Warning, Unknown, Failed}
	worst := slices.MaxFunc(findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State))
	})
	return worst.State
}
