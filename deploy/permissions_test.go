package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/remotehandlers"
	"deadman/internal/subjects"
)

// within is the timeout for each real operation.
const within = 30 * time.Second

// granted returns the permissions of deadman's user in nats-permissions.conf.
func granted(t *testing.T) (publish, subscribe []string) {
	t.Helper()
	t.Setenv("DEADMAN_NATS_PASSWORD", "secret")
	o, err := natsserver.ProcessConfigFile("nats-permissions.conf")
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Users) != 1 || o.Users[0].Username != "deadman" || o.Users[0].Permissions == nil {
		t.Fatalf("the users are %+v", o.Users)
	}
	may := o.Users[0].Permissions
	if len(may.Publish.Deny)+len(may.Subscribe.Deny) > 0 || may.Response == nil || may.Response.MaxMsgs != 1 {
		t.Fatal("the permissions contain more than the listed subjects and one answer to each request; extend this test")
	}
	return may.Publish.Allow, may.Subscribe.Allow
}

// tenant is an account with a user of deadman that lacks a permission, and a user with all permissions.
type tenant struct {
	name, lacks        string
	publish, subscribe []string
	namespace          subjects.Namespace
}

func without(all []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == one })
}

// config returns the server configuration of the tenant.
func (n tenant) config() string {
	list := func(all []string) string {
		if len(all) == 0 {
			all = []string{"nothing"} // an empty list would allow everything
		}
		return `["` + strings.Join(all, `", "`) + `"]`
	}
	return fmt.Sprintf(`%s { jetstream: enabled, users: [
  {user: %s-all, password: secret}
  {user: %s, password: secret, permissions: {publish: {allow: %s}, subscribe: {allow: %s}, allow_responses: true}}
] }`, n.name, n.name, n.name, list(n.publish), list(n.subscribe))
}

// serveConfig runs a NATS server with a configuration.
func serveConfig(t *testing.T, text string) *natsserver.Server {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nats.conf")
	text += fmt.Sprintf("\nlisten: 127.0.0.1:-1\njetstream {store_dir: %q}\n", t.TempDir())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := natsserver.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o.NoSigs, o.NoLog = true, true
	return bustest.Serve(t, o)
}

// everything uses all of deadman's broker features, in an account with a stream ORDERS.
func everything(ctx context.Context, o bus.Options, operator jetstream.JetStream) error {
	b, err := bus.Connect(ctx, o)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := publishAlerts(ctx, b); err != nil {
		return err
	}
	if err := errors.Join(
		answers(ctx, b, o.Namespace.Subject("deadman.acks.*"), o.Namespace.Subject("deadman.acks.1"), operator.Conn()),
		answers(ctx, b, "$SRV.PING", "$SRV.PING", operator.Conn()),
	); err != nil {
		return err
	}
	if _, err := b.Messages.Request(ctx, nats.NewMsg(o.Namespace.Subject(remotehandlers.Subject("shipping")))); !errors.Is(err, nats.ErrNoResponders) {
		return errors.Join(errors.New("request to a missing handler"), err)
	}
	if _, err := remotehandlers.NewServices(b.Messages, o.Namespace).Discover(ctx); err != nil {
		return err
	}
	// The first subject creates DEADMAN_EVENTS, the second changes it, the third is in ORDERS.
	for _, subject := range []string{"payments.started", "payments.confirmed", "orders.created"} {
		if _, err := b.Binder.Bind(ctx, []string{subject}); err != nil {
			return err
		}
	}
	for _, subject := range []string{"payments.started", "orders.created"} {
		stream, _, _, err := b.EventPublisher.PublishEvent(ctx, subject, []byte("{}"), nil, "")
		if err != nil {
			return err
		}
		if err := readAll(ctx, b, stream, subject); err != nil {
			return err
		}
	}
	if err := erase(ctx, b, o.Namespace); err != nil {
		return err
	}
	return inOldStream(ctx, o, operator)
}

// erase erases a message from each of deadman's own streams, as for a forgotten key.
func erase(ctx context.Context, b *bus.Bus, n subjects.Namespace) error {
	erasedAlert, err := b.Eraser.EraseSubject(ctx, n.Stream(bus.AlertsStream), n.Subject(someAlert.Subject()))
	if err != nil {
		return err
	}
	erasedEvent, err := b.Eraser.Erase(ctx, n.Stream(bus.EventsStream), 1)
	if err != nil {
		return err
	}
	again, err := b.Eraser.Erase(ctx, n.Stream(bus.EventsStream), 1)
	if err == nil && (!erasedAlert || !erasedEvent || again) {
		err = fmt.Errorf("erased an alert %t, an event %t, the same event again %t", erasedAlert, erasedEvent, again)
	}
	return err
}

// answers answers one request of a client.
func answers(ctx context.Context, b *bus.Bus, subject, request string, operator *nats.Conn) error {
	ctx, done := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- b.Messages.Respond(ctx, subject, "deadman", func(context.Context, string, []byte) bus.Reply { return bus.Reply{Data: []byte("yes")} })
	}()
	var err error
	for tries := 0; tries == 0 || tries < 30 && errors.Is(err, nats.ErrNoResponders); tries++ {
		_, err = operator.Request(request, nil, 3*time.Second)
		if err != nil {
			time.Sleep(50 * time.Millisecond)
		}
	}
	done()
	return errors.Join(err, <-ended)
}

// inOldStream connects to a broker with a stream of alerts of an older deadman, which does not allow batches.
func inOldStream(ctx context.Context, o bus.Options, operator jetstream.JetStream) error {
	if err := operator.DeleteStream(ctx, o.Namespace.Stream(bus.AlertsStream)); err != nil {
		return err
	}
	if _, err := operator.CreateStream(ctx, jetstream.StreamConfig{Name: o.Namespace.Stream(bus.AlertsStream), Subjects: []string{o.Namespace.Subject("deadman.alerts.>")}}); err != nil {
		return err
	}
	b, err := bus.Connect(ctx, o)
	if err != nil {
		return err
	}
	b.Close()
	return nil
}

// operate creates the stream ORDERS as a user with all permissions.
func operate(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	js := bustest.JetStream(t, url)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}); err != nil {
		t.Fatal(err)
	}
	return js
}

var (
	someTime  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	someAlert = alerts.Alert{
		ID:   alerts.Decision{JobID: 1, At: someTime}.ID(),
		Rule: "late", Key: "1", DecidedAt: someTime, Detail: alerts.Detail{Draft: alerts.Draft{Severity: alerts.Info}},
	}
)

// publishAlerts publishes an alert twice, and reads it as pages and as the comparison after a restore do.
func publishAlerts(ctx context.Context, b *bus.Bus) error {
	for range 2 { // the stream rejects the second, after which deadman checks whether the stream has it
		if _, err := b.AlertPublisher.Publish(ctx, []alerts.Alert{someAlert}); err != nil {
			return err
		}
	}
	for _, err := range b.AlertReader.Follow(ctx, 1) {
		if err != nil {
			return err
		}
		break
	}
	for _, err := range b.AlertReader.Between(ctx, 0, 2) { // the stream has one
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// readAll reads a stream as ingest and previews do.
func readAll(ctx context.Context, b *bus.Bus, stream, subject string) error {
	r, err := b.Streams.Read(ctx, stream, 0, []string{subject})
	if err != nil {
		return err
	}
	defer r.Close()
	if got, err := r.Next(ctx, 10, within); err != nil || len(got) == 0 {
		return errors.Join(err, ctx.Err())
	}
	if _, err := r.Drained(ctx, 0, 1); err != nil {
		return err
	}
	for _, err := range b.Binder.Replay(ctx, stream, []string{subject}, time.Now().Add(-time.Hour), 1) {
		if err != nil {
			return err
		}
	}
	return nil
}

// lacking matches a missing permission in deadman's log.
var lacking = regexp.MustCompile(`permission="(publish on|subscribe to) ([^"]+)"`)

// alertsBytes is the maximum size of each tenant's streams: the server reserves it for some twenty tenants at once.
const alertsBytes = 16 << 20

// borne reports whether deadman runs without a permission, with a log message: it then publishes alerts one by one,
// cannot receive acknowledgements over NATS, or deletes leftover consumers only after a while.
func borne(lacks string) bool {
	return lacks == "$JS.API.STREAM.UPDATE.DEADMAN_ALERTS" || lacks == "deadman.acks.*" || lacks == "$SRV.>" || strings.HasPrefix(lacks, "$JS.API.CONSUMER.DELETE.")
}

// Each line is needed: without it, deadman reports the missing permission. With all lines no permission is missing.
func TestEachPermissionIsNeeded(t *testing.T) {
	publish, subscribe := granted(t)
	tenants := []tenant{{name: "whole", publish: publish, subscribe: subscribe}}
	inStaging := strings.NewReplacer("DEADMAN_", "DEADMAN_STAGING_", "deadman.", "deadman-staging.") // as docs/operations/nats.md says
	staging := tenant{name: "staging", namespace: "staging"}
	for _, line := range publish {
		staging.publish = append(staging.publish, inStaging.Replace(line))
	}
	for _, line := range subscribe {
		staging.subscribe = append(staging.subscribe, inStaging.Replace(line))
	}
	tenants = append(tenants, staging)
	for i, line := range slices.Concat(publish, subscribe) {
		tenants = append(tenants, tenant{
			name: fmt.Sprintf("lacks%d", i), lacks: line, publish: without(publish, line), subscribe: without(subscribe, line),
		})
	}
	var accounts []string
	for _, n := range tenants {
		accounts = append(accounts, n.config())
	}
	server := serveConfig(t, "accounts {\n"+strings.Join(accounts, "\n")+"\n}")
	var all sync.WaitGroup
	for _, n := range tenants { // concurrently, because each waits for responses that never arrive
		operator := operate(t, bustest.As(server, n.name+"-all"))
		all.Go(func() {
			log := &bustest.Log{}
			err := everything(t.Context(), bus.Options{
				URL: bustest.As(server, n.name), Namespace: n.namespace, AlertsBytes: alertsBytes, EventsBytes: alertsBytes, Log: slog.New(slog.NewTextHandler(log, nil)),
			}, operator)
			n.judge(t, err, log.String())
		})
	}
	all.Wait()
}

// judge checks the error and the log of deadman.
func (n tenant) judge(t *testing.T, err error, log string) {
	named := map[string]bool{}
	for _, m := range lacking.FindAllStringSubmatch(log, -1) {
		named[m[2]] = true
	}
	if n.lacks == "" {
		if err != nil || len(named) > 0 {
			t.Errorf("with all permissions: %v, lacking %v\n%s", err, named, log)
		}
		return
	}
	if len(named) == 0 {
		t.Errorf("without %s nothing is named: %v\n%s", n.lacks, err, log)
	}
	for subject := range named {
		if !natsserver.SubjectMatchesFilter(subject, n.lacks) {
			t.Errorf("without %s the log names %s", n.lacks, subject)
		}
		if !borne(n.lacks) && (!errors.Is(err, bus.ErrDenied) || !strings.Contains(err.Error(), subject)) {
			t.Errorf("without %s: %v", n.lacks, err)
		}
	}
}

// Anything not granted is refused: the file has no more than deadman needs.
func TestNothingElseIsPermitted(t *testing.T) {
	publish, subscribe := granted(t)
	server := serveConfig(t, "accounts {\n"+tenant{name: "whole", publish: publish, subscribe: subscribe}.config()+"\n}")
	operator := operate(t, bustest.As(server, "whole-all"))
	var mu sync.Mutex
	refused := map[string]bool{}
	nc, err := nats.Connect(bustest.As(server, "whole"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		mu.Lock()
		defer mu.Unlock()
		for _, part := range strings.Split(err.Error(), `"`) {
			refused[part] = true
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var tried []string
	for _, subject := range []string{
		"accounts.opened", "deadman.other", "shop.orders.1", "$SYS.REQ.SERVER.PING", "$JS.API.INFO",
		"$JS.API.STREAM.CREATE.OTHER", "$JS.API.STREAM.UPDATE.ORDERS", "$JS.API.STREAM.PURGE.DEADMAN_ALERTS",
		"$JS.API.STREAM.DELETE.DEADMAN_ALERTS", "$JS.API.STREAM.DELETE.ORDERS", "$JS.API.STREAM.MSG.DELETE.ORDERS",
		"$JS.API.STREAM.MSG.GET.OTHER", "$JS.API.CONSUMER.CREATE.OTHER.x", "$JS.API.CONSUMER.LIST.ORDERS",
	} {
		tried = append(tried, subject)
		if err := nc.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{">", "orders.>", "_INBOX.>", "_INBOX.other.>", "deadman.alerts.>", "$JS.API.>"} {
		tried = append(tried, subject)
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		mu.Lock()
		left := slices.DeleteFunc(slices.Clone(tried), func(s string) bool { return refused[s] })
		mu.Unlock()
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not refused: %v", left)
		}
	}
	if _, err := operator.Stream(t.Context(), "ORDERS"); err != nil {
		t.Errorf("ORDERS: %v", err)
	}
}
