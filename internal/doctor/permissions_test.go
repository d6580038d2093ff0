package doctor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus/bustest"
	"deadman/internal/doctor"
	deadman "deadman/server"
)

// shippedPermissions returns the permissions of the user of deploy/nats-permissions.conf.
func shippedPermissions(t *testing.T) (publish, subscribe []string) {
	t.Helper()
	t.Setenv("DEADMAN_NATS_PASSWORD", "secret")
	o, err := natsserver.ProcessConfigFile("../../deploy/nats-permissions.conf")
	if err != nil {
		t.Fatal(err)
	}
	return o.Users[0].Permissions.Publish.Allow, o.Users[0].Permissions.Subscribe.Allow
}

// restricted is an account with a stream ORDERS, a user with permissions and a user with all.
type restricted struct {
	lacks              string // empty: nothing
	publish, subscribe []string
}

func (r restricted) account(name string) (*natsserver.Account, []*natsserver.User) {
	account := natsserver.NewAccount(name)
	of := func(list []string) *natsserver.SubjectPermission {
		left := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == r.lacks })
		return &natsserver.SubjectPermission{Allow: left}
	}
	return account, []*natsserver.User{
		{Username: name, Password: "secret", Account: account, Permissions: &natsserver.Permissions{Publish: of(r.publish), Subscribe: of(r.subscribe)}},
		{Username: name + "-all", Password: "secret", Account: account},
	}
}

const orderRules = `name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate: [{after: 1h, step: late}]
---
name: parcel
entity: parcel
trigger: {event: parcels.sent, key: event.id}
resolve: {event: parcels.received, key: event.id}
escalate: [{after: 1h, step: late}]
`

// permissionConfig returns the settings of a node with rules on ORDERS and on subjects without a stream, and with webhooks.
func permissionConfig(t *testing.T, url string) deadman.Config {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"rules/team/orders.yaml": orderRules,
		"hooks.yaml":             "hooks:\n  - {name: shop, subject: orders.hooked, scheme: github, secret_file: secret}\n  - {name: pay, subject: payments.hooked, scheme: github, secret_file: secret}\n",
		"secret":                 "a-secret-of-the-webhook-0123456789",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return deadman.Config{NATSURL: url, DataDir: filepath.Join(dir, "data"), Rules: filepath.Join(dir, "rules"), Hooks: filepath.Join(dir, "hooks.yaml")}
}

// With all lines of the shipped file no permission is missing. Without one of them, the finding has that line, and no other one.
// No test of a permission changes a stream or reaches a subscriber.
func TestEachMissingPermissionIsNamed(t *testing.T) { //nolint:paralleltest // it sets an environment variable
	publish, subscribe := shippedPermissions(t)
	users := []restricted{{"", publish, subscribe}}
	for _, line := range slices.Concat(publish, subscribe) {
		users = append(users, restricted{line, publish, subscribe})
	}
	o := bustest.Options(t)
	for n, r := range users {
		account, of := r.account(fmt.Sprintf("user%d", n))
		o.Accounts, o.Users = append(o.Accounts, account), append(o.Users, of...)
	}
	server := bustest.Serve(t, o)
	for n := range users {
		account, err := server.LookupAccount(fmt.Sprintf("user%d", n))
		if err == nil {
			err = account.EnableJetStream(nil, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for n, r := range users {
		js := bustest.JetStream(t, bustest.As(server, fmt.Sprintf("user%d-all", n)))
		for name, subject := range map[string]string{"ORDERS": "orders.>", "DEADMAN_ALERTS": "deadman.alerts.>"} {
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}}); err != nil {
				t.Fatal(err)
			}
		}
		seen, err := js.Conn().SubscribeSync(">")
		if err == nil {
			err = js.Conn().Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		c := permissionConfig(t, bustest.As(server, fmt.Sprintf("user%d", n)))
		all.Go(func() {
			r.judge(t, doctor.Inspect(t.Context(), c))
			untouched(t, js, seen)
		})
	}
	all.Wait()

	c := permissionConfig(t, bustest.As(server, "user0"))
	c.Namespace = "staging" // the user has the permissions of a deployment without one
	found := doctor.Inspect(t.Context(), c)
	for _, line := range []string{"$JS.API.STREAM.INFO.DEADMAN_STAGING_ALERTS", "$JS.API.CONSUMER.CREATE.DEADMAN_STAGING_EVENTS.*", "deadman-staging.alerts.>", "_INBOX.deadman-staging.>"} {
		expect(t, found, "broker permissions", doctor.Failed, " on "+line+": ")
	}
	expect(t, found, "broker permissions", doctor.Warning, " on deadman-staging.acks.*: ")
}

// judge checks the findings about permissions.
func (r restricted) judge(t *testing.T, found []doctor.Finding) {
	t.Helper()
	var problems []doctor.Finding
	for _, f := range found {
		if f.Check == "broker permissions" && f.State != doctor.OK {
			problems = append(problems, f)
		}
		if f.Check == "JetStream" && (f.State != doctor.OK || !strings.Contains(f.Detail, "$JS.API.INFO, which a node does not need")) {
			t.Errorf("without %s the account is %+v", r.lacks, f)
		}
	}
	// A webhook is named by its own subject, which a wider line permits.
	named := map[string]string{"orders.>": "orders.hooked", "payments.>": "payments.hooked"}[r.lacks]
	if named == "" {
		named = r.lacks
	}
	for _, f := range problems {
		if !strings.Contains(f.Detail, " on "+named+": ") || !strings.Contains(f.Remedy, fmt.Sprintf("%q", named)) || (f.State != doctor.Failed && f.State != doctor.Warning) {
			t.Errorf("without %q: %+v", r.lacks, f)
		}
	}
	if want := min(len(r.lacks), 1); len(problems) != want {
		t.Errorf("without %q there are %d findings, not %d: %+v", r.lacks, len(problems), want, problems)
	}
	if r.lacks == "" {
		expect(t, found, "webhooks file", doctor.OK, "2 webhooks")
		expect(t, found, "broker permissions", doctor.OK, "permissions that a node and its rules need")
		expect(t, found, "events over HTTP", doctor.OK, "refused on parcels.sent, parcels.received, which")
		expect(t, found, "rules folder", doctor.OK, "1 files of rules in it and its subfolders")
	}
	for line, text := range map[string]string{"_INBOX.deadman.>": "may not subscribe on _INBOX.deadman.>", "$JS.API.STREAM.LIST": "may not publish on $JS.API.STREAM.LIST"} {
		if r.lacks == line {
			expect(t, found, "streams", doctor.Unknown, text)
		}
	}
}

// untouched checks that no message of the tests of permissions was stored or delivered.
func untouched(t *testing.T, js jetstream.JetStream, seen *nats.Subscription) {
	t.Helper()
	for name := range map[string]bool{"ORDERS": true, "DEADMAN_ALERTS": true} {
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Error(err)
			continue
		}
		if state := s.CachedInfo().State; state.LastSeq != 0 || state.Consumers != 0 {
			t.Errorf("the stream %s has %+v", name, state)
		}
	}
	if err := js.Conn().Flush(); err != nil {
		t.Error(err)
	}
	for pending, _, err := seen.Pending(); pending > 0 && err == nil; pending-- {
		m, err := seen.NextMsg(time.Minute)
		if err != nil {
			t.Error(err)
			return
		}
		if m.Subject != "$JS.API.STREAM.LIST" && !strings.HasPrefix(m.Subject, "_INBOX.") && !strings.HasPrefix(m.Subject, "$JS.API.STREAM.INFO.") && !strings.HasPrefix(m.Subject, "$JS.EVENT.") {
			t.Errorf("a test of permissions was delivered on %s", m.Subject)
		}
	}
}
