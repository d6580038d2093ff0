package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
	"deadman/internal/backup"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/store"
	"deadman/internal/testwait"
	"deadman/server"
	"deadman/web"
)

const backupRules = `
name: parcel-late
entity: parcel
slot: 1s
trigger: {event: parcels.sent, key: event.id}
resolve: {event: parcels.arrived, key: event.id}
escalate: [{after: 1s, step: late}, {after: 240h, step: lost}]
---
name: order-late
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate: [{after: 48h, step: late}]
`

// newBackedUpNode returns a node with a pending order, an open alert of a parcel, a consumer and a stream in memory.
func newBackedUpNode(t *testing.T) *inProcessNode {
	t.Helper()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rules.yaml", backupRules))
	n.mustRun("event", "send", "orders.created", `{"id": "o-1"}`)
	n.mustRun("event", "send", "parcels.sent", `{"id": "p-1"}`)
	n.waitForAlerts("parcel-late", 1)
	js := bustest.JetStream(t, bustest.LogIn(t, n.dir, n.at.NATS, bus.UserAdmin))
	if _, err := js.CreateOrUpdateConsumer(t.Context(), bus.AlertsStream, jetstream.ConsumerConfig{Durable: "pager", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "SCRATCH", Subjects: []string{"scratch"}, Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
	return n
}

// alertsOf returns the alerts of a rule, the oldest first.
func (h *inProcessNode) alertsOf(rule string) []web.Alert {
	h.t.Helper()
	items := readJSON[web.Page[web.Alert]](h, "alert", "list", "--rule", rule, "--limit", "500").Items
	slices.Reverse(items)
	return items
}

func (h *inProcessNode) waitForAlerts(rule string, n int) {
	h.t.Helper()
	testwait.Until(h.t, fmt.Sprintf("%d alerts of %s", n, rule), func() bool { return len(h.alertsOf(rule)) >= n })
}

// pending returns the pending jobs of a rule by key.
func (h *inProcessNode) pending(rule string) map[string]web.Job {
	h.t.Helper()
	jobs := make(map[string]web.Job)
	for _, j := range readJSON[web.Page[web.Job]](h, "job", "list", "--rule", rule, "--limit", "500").Items {
		jobs[j.Key] = j
	}
	return jobs
}

// startOn runs a node on a folder.
func startOn(t *testing.T, dir string) *inProcessNode {
	t.Helper()
	return newInProcessNode(t, func(c *server.Config) { c.DataDir = dir })
}

// TestBackupWhileNodeServes restores the backup of a node that takes in events meanwhile. The restored node has the jobs
// and alerts of the backup, one job for each event of its stream, and reports the restore.
func TestBackupWhileNodeServes(t *testing.T) {
	t.Parallel()
	n := newBackedUpNode(t)
	before := n.pending("order-late")["o-1"]
	alert := n.alertsOf("parcel-late")[0]

	file := filepath.Join(t.TempDir(), "deadman.tar.gz")
	sending, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			if got := runInProcess(t, "", n.env, "event", "send", "orders.created", fmt.Sprintf(`{"id": "during-%d"}`, i)); got.code != exitOK {
				t.Errorf("event %d: %+v", i, got)
				return
			}
			if i == 5 {
				close(sending)
			}
			select {
			case <-t.Context().Done():
				return
			case <-stopped:
				return
			default:
			}
			if _, err := os.Stat(file); err == nil {
				return
			}
		}
	}()
	<-sending
	args := []string{"backup", file, "--data-dir", n.dir}
	saved := n.run("", args...)
	saved.check(t, args, exitOK, n.dir+" as of ", "stream DEADMAN_ALERTS: 1 message\n", "stream DEADMAN_EVENTS: ")
	if !strings.Contains(saved.err, "stream SCRATCH is kept in memory and is not in the backup") {
		t.Errorf("no warning of a stream in memory: %q", saved.err)
	}
	<-stopped
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v %v", info, err)
	}
	n.mustRun("event", "send", "parcels.arrived", `{"id": "p-1"}`)
	n.mustRun("event", "send", "orders.created", `{"id": "after"}`)
	n.waitForAlerts("parcel-late", 2)
	n.stop()

	dir := filepath.Join(bustest.Dir(t), "restored")
	args = []string{"restore", file, "--data-dir", dir}
	runInProcess(t, "", nil, args...).check(t, args, exitOK, dir+": restored as of ", "stream DEADMAN_ALERTS: 1 message\n", "deadman serve --data-dir "+dir)
	r := startOn(t, dir)
	js := bustest.JetStream(t, bustest.LogIn(t, n.dir, r.at.NATS, bus.UserAdmin)) // with the secret of the old folder
	checkRestoredStreams(t, js)
	events, err := js.Stream(t.Context(), bus.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	orders := int(events.CachedInfo().State.LastSeq) - 1 // all but the parcel
	testwait.Until(t, "a job for each event of the stream", func() bool { return len(r.pending("order-late")) == orders })
	jobs := r.pending("order-late")
	if j := jobs["o-1"]; !j.NextCheckAt.Equal(before.NextCheckAt) || !j.CreatedAt.Equal(before.CreatedAt) {
		t.Errorf("the job is %+v, want %+v", j, before)
	}
	if _, is := jobs["after"]; is || orders < 6 {
		t.Errorf("%d orders, after the backup: %t", orders, is)
	}
	if all := r.alertsOf("parcel-late"); len(all) != 1 || all[0].ID != alert.ID {
		t.Errorf("the alerts are %+v, want %s alone", all, alert.ID)
	}
	checkRestoreIsReported(t, r, "deadman restore created it from a backup", "DEADMAN_EVENTS after sequence ")
	r.mustRun("event", "send", "parcels.arrived", `{"id": "p-1"}`)
	r.waitForAlerts("parcel-late", 2)
	r.expect(0, []string{"history", "list", "--rule", "parcel-late"}, "resolved late")
	r.expect(0, []string{"explain", "parcel", "p-1"}, "resolved late")
}

// checkRestoredStreams checks the consumer, and that the stream in memory is not there.
func checkRestoredStreams(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	if _, err := js.Consumer(t.Context(), bus.AlertsStream, "pager"); err != nil {
		t.Errorf("the consumer: %v", err)
	}
	if _, err := js.Stream(t.Context(), "SCRATCH"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the stream in memory: %v", err)
	}
}

// checkRestoreIsReported waits for the alert about the restore. It is open after the streams are read again, until it is closed.
func checkRestoreIsReported(t *testing.T, n *inProcessNode, texts ...string) {
	t.Helper()
	testwait.Until(t, "the restore is settled", func() bool {
		response, err := http.Get(n.at.HTTP + "/readyz?all")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return err == nil && strings.Contains(string(body), "after a restore the streams are read past the state of")
	})
	open := readJSON[web.Page[web.Alert]](n, "alert", "list", "--open", "--rule", alerts.SystemRule).Items
	if len(open) != 1 || open[0].Step != "restored" {
		t.Fatalf("open are %+v", open)
	}
	for _, text := range append(texts, ", restored at ") {
		if !strings.Contains(open[0].Text, text) {
			t.Errorf("the report has no %q: %s", text, open[0].Text)
		}
	}
	if strings.Contains(open[0].Text, " stands:  after") || strings.Contains(open[0].Text, ",  after") {
		t.Errorf("the report has a stream without a name: %s", open[0].Text)
	}
	want := "All conditions hold, but the database went back to its state of " + open[0].Labels[alerts.StateLabel] + ": later data may be missing"
	if got := n.expect(exitCondition, []string{"status"}, want); !strings.Contains(open[0].Text, open[0].Labels[alerts.StateLabel]) {
		t.Errorf("%s: %s", open[0].Text, got.out)
	}
	n.mustRun("alert", "close", open[0].ID.String(), "--reason", "all is sent again")
	if reported := n.alertsOf(alerts.SystemRule); len(reported) != 2 || reported[1].Status != alerts.Resolved {
		t.Errorf("%+v", reported)
	}
}

// TestRestoreOfDatabaseAlone replaces the database of a node that crashed, and keeps its streams. The node applies the later
// events again, raises no alert twice, and reports the difference.
func TestRestoreOfDatabaseAlone(t *testing.T) {
	t.Parallel()
	n := newBackedUpNode(t)
	file := filepath.Join(t.TempDir(), "deadman.tar.gz")
	n.mustRun("backup", file, "--data-dir", n.dir)
	n.mustRun("event", "send", "orders.created", `{"id": "o-2"}`)
	n.mustRun("event", "send", "parcels.sent", `{"id": "p-2"}`)
	n.mustRun("event", "send", "parcels.arrived", `{"id": "p-1"}`)
	n.waitForAlerts("parcel-late", 3)
	database := filepath.Join(n.dir, "deadman.db")
	log, err := os.ReadFile(database + "-wal") // as a crash leaves it
	if err != nil || len(log) == 0 {
		t.Fatalf("%d bytes, %v", len(log), err)
	}
	n.stop()
	if err := os.WriteFile(database+"-wal", log, 0o600); err != nil {
		t.Fatal(err)
	}
	former, err := os.ReadFile(database)
	if err != nil {
		t.Fatal(err)
	}

	other := newInProcessNode(t) // with streams of its own, which are empty
	other.stop()
	args := []string{"restore", file, "--only", "database", "--data-dir", other.dir}
	runInProcess(t, "", nil, args...).check(t, args, exitFailure, "the streams of the folder are older than the backup: stream DEADMAN_ALERTS ends at sequence 0, that of the backup at 1")
	if _, err := os.Stat(filepath.Join(other.dir, "deadman.db.restoring")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part of the database stays: %v", err)
	}
	startOn(t, other.dir).stop() // it is as it was

	args[len(args)-1] = n.dir
	runInProcess(t, "", nil, args...).check(t, args, exitOK, n.dir+": database restored as of ", "former database: "+database+".before-restore;")
	for suffix, want := range map[string][]byte{"": former, "-wal": log} {
		if got, err := os.ReadFile(database + ".before-restore" + suffix); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the former database%s has %d bytes, want %d: %v", suffix, len(got), len(want), err)
		}
	}
	runInProcess(t, "", nil, args...).check(t, args, exitUsage, "the folder has a database of before a restore")

	r := startOn(t, n.dir)
	testwait.Until(t, "the events are applied again", func() bool { return len(r.pending("order-late")) == 2 && len(r.pending("parcel-late")) == 1 })
	if jobs := r.pending("parcel-late"); jobs["p-2"].Key == "" {
		t.Errorf("the pending parcels are %v", jobs)
	}
	checkRestoreIsReported(t, r, "deadman restore --only database", "DEADMAN_EVENTS after sequence 2 up to 5 (3 messages)", "2 alerts of the stream were decided after that state")
	r.mustRun("event", "send", "parcels.arrived", `{"id": "p-2"}`)
	r.waitForAlerts("parcel-late", 4)
	checkAlertStream(t, bustest.JetStream(t, bustest.LogIn(t, r.dir, r.at.NATS, bus.UserAdmin)),
		"p-1 firing late", "p-1 resolved late", "p-2 firing late", "p-2 resolved late")
}

// TestRestoreKeepsFolderLocked checks that no node can start on a folder during a restore: the NATS server, which a restore
// starts, and the database are opened under the lock, and the restored database has its name only at the end.
func TestRestoreKeepsFolderLocked(t *testing.T) {
	t.Parallel()
	n := newBackedUpNode(t)
	file := filepath.Join(t.TempDir(), "deadman.tar.gz")
	n.mustRun("backup", file, "--data-dir", n.dir)
	n.stop()
	former, err := os.ReadFile(filepath.Join(n.dir, "deadman.db"))
	if err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(bustest.Dir(t), "restored")
	for dir, restore := range map[string]func(io.Reader, *slog.Logger) error{
		n.dir: func(in io.Reader, log *slog.Logger) error {
			_, _, _, err := backup.RestoreDatabase(t.Context(), in, n.dir, log)
			return err
		},
		whole: func(in io.Reader, log *slog.Logger) error {
			_, _, err := backup.Restore(t.Context(), in, whole, log)
			return err
		},
	} {
		archive, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		moments := &lockedMoments{dir: dir}
		if err := restore(bytes.NewReader(archive), slog.New(moments)); err != nil {
			t.Fatal(err)
		}
		if moments.serving == 0 {
			t.Error("the NATS server logged nothing, so nothing was checked")
		}
		for _, problem := range moments.problems {
			t.Errorf("restore to %s: %s", dir, problem)
		}
		lock, err := store.LockFolder(dir)
		if err != nil {
			t.Fatal(err) // it is free at the end
		}
		if err := lock.Close(); err != nil {
			t.Error(err)
		}
		if files, err := filepath.Glob(filepath.Join(dir, "*.restoring*")); err != nil || len(files) > 0 {
			t.Errorf("%v stays, %v", files, err)
		}
		startOn(t, dir).stop()
	}
	if got, err := os.ReadFile(filepath.Join(n.dir, "deadman.db.before-restore")); err != nil || !bytes.Equal(got, former) {
		t.Errorf("the former database has %d bytes, want %d: %v", len(got), len(former), err)
	}
}

// lockedMoments is a log handler that checks, at each message of a restore, that the folder is locked.
type lockedMoments struct {
	dir string

	mu       sync.Mutex
	serving  int // messages
	problems []string
}

func (l *lockedMoments) Enabled(context.Context, slog.Level) bool { return true }
func (l *lockedMoments) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lockedMoments) WithGroup(string) slog.Handler            { return l }

// Handle implements slog.Handler.
func (l *lockedMoments) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serving++
	lock, err := store.LockFolder(l.dir)
	if err == nil {
		l.problems = append(l.problems, fmt.Sprintf("the folder is not locked at %q", r.Message))
		return lock.Close()
	}
	if !errors.Is(err, store.ErrLocked) {
		l.problems = append(l.problems, err.Error())
	}
	return nil
}

// checkAlertStream checks that the stream has each of the alerts of parcels once, and no other ones.
func checkAlertStream(t *testing.T, js jetstream.JetStream, want ...string) {
	t.Helper()
	var got []string
	testwait.Until(t, "the alerts in the stream", func() bool {
		stream, err := js.Stream(t.Context(), bus.AlertsStream)
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
			m, err := stream.GetMsg(t.Context(), seq)
			var a alerts.Alert
			if err == nil {
				err = json.Unmarshal(m.Data, &a)
			}
			if err != nil {
				t.Fatal(err)
			}
			if a.Rule != alerts.SystemRule {
				got = append(got, fmt.Sprintf("%s %s %s", a.Key, a.Status, a.Step))
			}
		}
		return len(got) >= len(want)
	})
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the stream has %q, want %q", got, want)
	}
}

// TestBackupOfStoppedNode checks that a stopped node is backed up too, to the standard output, and that the restored
// node has the same. Events that the old database had not applied yet are applied once.
func TestBackupOfStoppedNode(t *testing.T) {
	t.Parallel()
	n := newBackedUpNode(t)
	n.stop()
	saved := runInProcess(t, "", nil, "backup", "-", "--data-dir", relative(t, n.dir))
	if saved.code != exitOK || !strings.Contains(saved.err, "stream DEADMAN_EVENTS: 2 messages\n") {
		t.Fatalf("%d %s", saved.code, saved.err)
	}
	dir := bustest.Dir(t) // an empty folder
	args := []string{"restore", "-", "--data-dir", relative(t, dir)}
	runInProcess(t, saved.out, nil, args...).check(t, args, exitOK, "stream DEADMAN_EVENTS: 2 messages\n")
	r := startOn(t, dir)
	if len(r.pending("order-late")) != 1 || len(r.pending("parcel-late")) != 1 || len(r.alertsOf("parcel-late")) != 1 {
		t.Errorf("jobs %v, alerts %+v", r.pending("order-late"), r.alertsOf("parcel-late"))
	}
	startOn(t, n.dir) // the old folder is unchanged
}

// relative returns the path from the working directory.
func relative(t *testing.T, dir string) string {
	t.Helper()
	here, err := os.Getwd()
	if err == nil {
		dir, err = filepath.Rel(here, dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestBackupIsRefused checks the errors of backup and restore. None of them leaves a file or a folder.
func TestBackupIsRefused(t *testing.T) {
	t.Parallel()
	n := newBackedUpNode(t)
	folder := t.TempDir()
	file := filepath.Join(folder, "a.tar.gz")
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{exitUsage, []string{"backup"}, "requires FILE"},
		{exitUsage, []string{"backup", file, "--data-dir", filepath.Join(folder, "none")}, "has no database; name the data folder of the node with --data-dir"},
		{exitUsage, []string{"backup", filepath.Join(folder, "none", "a"), "--data-dir", n.dir}, "the folder " + filepath.Join(folder, "none") + " of " + filepath.Join(folder, "none", "a") + " does not exist; create it"},
		{exitUsage, []string{"backup", file, "--database-url", "postgres://localhost/x"}, "pg_dump"},
		{exitOK, []string{"backup", file, "--data-dir", n.dir}, "stream DEADMAN_EVENTS: 2 messages"},
		{exitUsage, []string{"backup", file, "--data-dir", n.dir}, "exists; name another file"},
		{exitUsage, []string{"restore", filepath.Join(folder, "b"), "--data-dir", filepath.Join(folder, "new")}, "no such file or directory"},
		{exitUsage, []string{"restore", file, "--data-dir", n.dir}, "the folder is not empty: " + n.dir + " has "},
		{exitUsage, []string{"restore", file, "--data-dir", folder}, "restore to another folder with --data-dir"},
		{exitUsage, []string{"restore", file, "--data-dir", folder}, "replace its database alone with --only database"},
		{exitUsage, []string{"restore", file, "--data-dir", n.dir, "--only", "streams"}, "the one part that can be restored alone is database"},
		{exitUsage, []string{"restore", file, "--data-dir", n.dir, "--only", "database"}, "the data folder is in use"},
		{exitUsage, []string{"restore", file, "--data-dir", filepath.Join(folder, "new"), "--only", "database"}, "there is no data folder: " + filepath.Join(folder, "new")},
	} {
		runInProcess(t, "", nil, c.args...).check(t, c.args, c.code, c.want)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damaged := slices.Clone(whole)
	damaged[len(damaged)-3]++
	inputs := map[string][]byte{
		"no complete backup":                   []byte("CREATE TABLE future_job"),
		"damaged":                              damaged,
		"newer":                                rewrite(t, whole, headerEntry, `{"format": 2, "version": "9.1.0"}`),
		`its first entry is "deadman.db"`:      rewrite(t, whole, headerEntry, ""),
		`unexpected entry "../../etc/passwd"`:  rewrite(t, whole, "nats-users/admin", "../../etc/passwd"),
		"it names the streams [DEADMAN_ALERTS": rewrite(t, whole, "streams/DEADMAN_EVENTS.snapshot", ""),
		"it has no deadman.db":                 rewrite(t, whole, "deadman.db", ""),
		"it has no contents.json":              rewrite(t, whole, "contents.json", ""),
	}
	for part := 1; part < 10; part++ {
		inputs[fmt.Sprintf("cut off after %d tenths", part)] = whole[:len(whole)*part/10]
	}
	for name, input := range inputs {
		dir := filepath.Join(bustest.Dir(t), "restored")
		got := runInProcess(t, string(input), nil, "restore", "-", "--data-dir", dir)
		want := "no complete backup of deadman"
		if name == "newer" {
			want = "the backup has a newer format 2, written by deadman 9.1.0; this program reads up to format 1"
		}
		if got.code != exitFailure || !strings.Contains(got.err, want) || strings.Contains(name, "it") && !strings.Contains(got.err, name) {
			t.Errorf("%s: %+v", name, got)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the folder stays: %v", name, err)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v", left, err)
	}
}

const headerEntry = "backup.json"

// rewrite returns an archive with another content of an entry. An empty content removes the entry, and one that is a
// path renames it.
func rewrite(t *testing.T, archive []byte, entry, content string) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	to := gzip.NewWriter(&out)
	from, w := tar.NewReader(z), tar.NewWriter(to)
	found := false
	for {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == entry {
			found = true
			switch {
			case content == "":
				continue
			case strings.HasPrefix(content, ".."):
				h.Name = content
			default:
				data, h.Size = []byte(content), int64(len(content))
			}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), to.Close()); err != nil || !found {
		t.Fatalf("%s: found %t, %v", entry, found, err)
	}
	return out.Bytes()
}
