package bus

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

var _ natsserver.Logger = (*serverLog)(nil)

// serverLog forwards the embedded server's log to the node's log. Notices become debug messages, because they rarely
// matter to operators of a single program.
type serverLog struct {
	log     *slog.Logger
	refused *refusals
	fatal   chan string // first error that prevented the start
	reads   sync.Once   // guards the message about recovering streams
}

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug(natsText(format, v)) }
func (l *serverLog) Debugf(format string, v ...any)  { l.log.Debug(natsText(format, v)) }
func (l *serverLog) Tracef(format string, v ...any)  { l.log.Debug(natsText(format, v)) }

// Messages of the server about failed logins, counted by users.Check, and about denied requests.
var (
	unknownClient = regexp.MustCompile(` - authentication error($| - )`)
	trespass      = regexp.MustCompile(` - (Publish|Subscription) Violation`)
)

// Errorf counts refused clients instead of logging each one, because they may retry without limit.
func (l *serverLog) Errorf(format string, v ...any) {
	switch text := natsText(format, v); {
	case unknownClient.MatchString(text):
		l.log.Debug(text)
	case trespass.MatchString(text):
		l.refused.permission(text)
	default:
		l.log.Error(text)
	}
}

// Warnf logs the usual messages after an unclean stop as debug messages, with one summary.
func (l *serverLog) Warnf(format string, v ...any) {
	text := natsText(format, v)
	if !outdated(text) {
		l.log.Warn(text)
		return
	}
	l.log.Debug(text)
	l.reads.Do(func() {
		l.log.Info("the last stop was not a clean one; the streams are read from the disk, and nothing is lost")
	})
}

// outdated reports whether a message is about a stream's stale index. The server recovers the index from the
// messages.
func outdated(text string) bool {
	if !strings.HasPrefix(text, "nats: Filestore [") {
		return false
	}
	for _, sign := range []string{"prior state", "Stream state outdated", "state is outdated; attempting to recover"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// Fatalf logs the error but does not end the process, because a program may embed it.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.log.Error(natsText(format, v))
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
	}
}

func natsText(format string, v []any) string {
	return "nats: " + strings.TrimSpace(fmt.Sprintf(format, v...))
}
