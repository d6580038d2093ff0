package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const goodRule = `
name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate:
  - {after: 1h, step: primary, severity: warning}
`

func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	good := writeFile(t, dir, "good/a.yaml", goodRule)
	writeFile(t, dir, "good/b.yml", strings.Replace(goodRule, "order-unshipped", "other", 1))
	writeFile(t, dir, "good/.hidden.yaml", "][")
	writeFile(t, dir, "good/README.md", "][")
	bad := writeFile(t, dir, "bad.yaml", strings.Replace(goodRule, "entity", "entitty", 1))
	writeFile(t, dir, "twice/a.yaml", goodRule)
	writeFile(t, dir, "twice/b.yaml", goodRule)
	writeFile(t, dir, "none/README.md", "")
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	const absent = "http://" + stoppedNode
	long := strings.Repeat("long/", 60)

	for _, c := range []struct {
		name      string
		env       []string
		args      []string
		code      int
		wantTexts []string // on either output
	}{
		{"nothing", nil, nil, 0, []string{"Usage:", "serve"}},
		{"help", nil, []string{"job", "--help"}, 0, []string{"cancel"}},
		{"version", nil, []string{"version"}, 0, []string{"deadman dev (go"}},
		{"--version", nil, []string{"--version"}, 0, []string{"deadman dev"}},
		{"completion", nil, []string{"completion", "bash"}, 0, []string{"complete"}},
		{"unknown command", nil, []string{"jov"}, 2, []string{`unknown command "jov"`, "did you mean deadman job?"}},
		{"unknown command of a group", nil, []string{"job", "lisst"}, 2, []string{`unknown command "job lisst"`, "did you mean deadman job list?"}},
		{"unknown flag", nil, []string{"job", "list", "--colour"}, 2, []string{"--colour"}},
		{"too few arguments", nil, []string{"job", "get", "rule"}, 2, []string{"RULE KEY", "got 1 argument\n"}},
		{"a group without a verb", nil, []string{"job"}, 2, []string{"deadman: job requires a command: cancel, check, create, get, list, slots, snooze", "deadman job --help"}},
		{"help about a command", nil, []string{"help", "job"}, 0, []string{"Usage:", "cancel", "--help"}},
		{"help about a verb", nil, []string{"help", "job", "list"}, 0, []string{"deadman job list [flags]", "--limit"}},
		{"help about everything", nil, []string{"help"}, 0, []string{"Usage:", "serve", "--version"}},
		{"help about nothing there is", nil, []string{"help", "nope"}, 2, []string{`unknown command "nope"`}},
		{"help about no verb there is", nil, []string{"help", "job", "lisst"}, 2, []string{"did you mean deadman job list?"}},
		{"limit 0", nil, []string{"job", "list", "--limit", "0"}, 2, []string{"--limit is 0", "from 1 to 500"}},
		{"limit below 0", nil, []string{"alert", "list", "--limit", "-1"}, 2, []string{"from 1 to 500"}},
		{"limit over the most", nil, []string{"history", "list", "--limit", "501"}, 2, []string{"--limit is 501", "from 1 to 500"}},
		{"backlog over the most", nil, []string{"alert", "tail", "--backlog", "501"}, 2, []string{"from 0 to 500"}},
		{"too many arguments", nil, []string{"version", "now"}, 2, []string{"no arguments"}},
		{"bad output", nil, []string{"version", "-o", "xml"}, 2, []string{"xml", "not text, json or csv"}},
		{"bad url", nil, []string{"job", "list", "--url", "localhost:8080"}, 2, []string{"localhost:8080", "--url", "in full"}},
		{"bad id", nil, []string{"alert", "get", "7"}, 2, []string{"not an alert id"}},
		{"no data", nil, []string{"event", "send"}, 2, []string{"requires SUBJECT", "0 arguments"}},
		{"no file of data", nil, []string{"event", "send", "a.b", "@nowhere.json"}, 2, []string{"nowhere.json"}},
		{"absent there", nil, []string{"job", "list", "--url", absent}, 1, []string{absent, "--url", "deadman serve"}},
		{"absent there, by variable", []string{"DEADMAN_URL=" + absent}, []string{"alert", "tail"}, 1, []string{absent, "DEADMAN_URL"}},
		{"another program there", nil, []string{"history", "list", "--url", web.URL}, 1, []string{"404", "another program"}},
		{"lint", nil, []string{"rule", "lint", filepath.Join(dir, "good")}, 0, []string{"2 rules in 2 files", "no errors"}},
		{"lint a file", nil, []string{"rule", "lint", good}, 0, []string{"1 rule in 1 file"}},
		{"lint finds something", nil, []string{"rule", "lint", bad}, 3, []string{bad + ":3:", "entitty", "1 file"}},
		{"lint finds a name twice", nil, []string{"rule", "lint", filepath.Join(dir, "twice")}, 3, []string{"order-unshipped", "a.yaml", "b.yaml"}},
		{"lint of nothing", nil, []string{"rule", "lint", filepath.Join(dir, "none")}, 2, []string{"no rule files"}},
		{"lint of nowhere", nil, []string{"rule", "lint", filepath.Join(dir, "nowhere")}, 2, []string{"nowhere"}},
		{"unknown variable", []string{"DEADMAN_LEESE=1s"}, []string{"serve"}, 2, []string{"DEADMAN_LEESE"}},
		{"unknown variable of config", []string{"DEADMAN_LEESE=1s"}, []string{"config"}, 2, []string{"DEADMAN_LEESE"}},
		{"bad setting", nil, []string{"serve", "--lease", "long"}, 2, []string{"lease", "--lease"}},
		{"another database", nil, []string{"serve", "--database-url", "mysql://u:hidden@h/d"}, 2, []string{"DEADMAN_DATABASE_URL", `"mysql://"`, "postgres://"}},
		{"another database of migrate", nil, []string{"migrate", "--database-url", "mysql://h/d"}, 2, []string{"DEADMAN_DATABASE_URL", `"mysql://"`}},
		{"another broker", []string{"DEADMAN_NATS_URL=http://x:1"}, []string{"serve", "--database-url", "postgres://" + stoppedNode + "/d"}, 2, []string{"DEADMAN_NATS_URL", `"http://"`}},
		{"another broker of replay", []string{"DEADMAN_NATS_URL=http://x:1"}, []string{"replay", "-f", good, "--stream", "S"}, 2, []string{"DEADMAN_NATS_URL", `"http://"`}},
		{"half configured", nil, []string{"serve", "--database-url", "postgres://h/d"}, 2, []string{"DEADMAN_NATS_URL is not"}},
		{"no folder of rules", nil, []string{"serve", "--data-dir", filepath.Join(dir, "data"), "--rules", filepath.Join(dir, "nowhere")}, 2, []string{"DEADMAN_RULES", "nowhere"}},
		{"unknown scope", nil, []string{"token", "create", "x", "--scope", "foo", "--url", absent}, 2, []string{"--scope", `"foo"`, "oncall"}},
		{"config", []string{"DEADMAN_DATABASE_URL=postgres://u:secret@h/d"}, []string{"config"}, 0, []string{"postgres://u:xxxxx@h/d", "DEADMAN_DATABASE_URL"}},
		{"a table into a pipe is whole", nil, []string{"config", "--rules", long}, 0, []string{long}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := runBinary(t, c.env, c.args...)
			if got.code != c.code {
				t.Errorf("exit code %d, want %d", got.code, c.code)
			}
			for _, part := range c.wantTexts {
				if !strings.Contains(got.out+got.err, part) {
					t.Errorf("it does not contain %q", part)
				}
			}
			if c.code != 0 && c.code != 3 && got.out != "" {
				t.Errorf("an error is on the standard output: %s", got.out)
			}
			if t.Failed() {
				t.Logf("out: %s\nerr: %s", got.out, got.err)
			}
		})
	}
}

// stoppedNode is an address without a server: the first port is not listened on.
const stoppedNode = "127.0.0.1:1"

// TestEndpointsFile checks that a running embedded node is found by the file in its data folder.
func TestEndpointsFile(t *testing.T) {
	const absent = "http://" + stoppedNode
	dir := t.TempDir()
	writeFile(t, dir, "endpoints.json", `{"http": "`+absent+`", "nats": "nats://127.0.0.1:4222"}`)
	got := runBinary(t, []string{"DEADMAN_DATA_DIR=" + dir}, "job", "list")
	if got.code != 1 || !strings.Contains(got.err, absent) || !strings.Contains(got.err, "endpoints.json") {
		t.Errorf("%+v", got)
	}
	const other = "http://127.0.0.1:2" // without a server, too
	if got := runBinary(t, []string{"DEADMAN_DATA_DIR=" + dir, "DEADMAN_URL=" + other}, "job", "list"); !strings.Contains(got.err, other) {
		t.Errorf("DEADMAN_URL does not come before the file: %+v", got)
	}
	writeFile(t, dir, "endpoints.json", `{`)
	if got := runBinary(t, []string{"DEADMAN_DATA_DIR=" + dir}, "job", "list"); got.code != 1 || !strings.Contains(got.err, "endpoints.json") {
		t.Errorf("a broken file: %+v", got)
	}
	c, err := inProcess(nil, nil, "DEADMAN_DATA_DIR="+t.TempDir()).client()
	if err != nil || c.base != "http://127.0.0.1:8080" || c.from != "the default address" {
		t.Errorf("without a file: %+v, %v", c, err)
	}
}

// TestAddressPasswordIsRedacted checks that the client sends the password of a node's address to the node, and
// prints it nowhere.
func TestAddressPasswordIsRedacted(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ann" || password != "hidden" {
			t.Errorf("the node is sent %q and %q", user, password)
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	defer other.Close()
	for _, address := range []string{
		strings.Replace(other.URL, "http://", "http://ann:hidden@", 1), "http://ann:hidden@127.0.0.1:1", "ftp://ann:hidden@127.0.0.1:1", "http://ann:hidden@127.0.0.1:x",
	} {
		var out, errs bytes.Buffer
		p := inProcess(&out, &errs, "DEADMAN_URL="+address)
		if c, err := p.client(); err == nil {
			_, err = c.request(t.Context(), http.MethodGet, "/jobs", nil, nil, nil)
			if err == nil || strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), "ann:xxxxx@127.0.0.1") {
				t.Errorf("%s: %v", address, err)
			}
		} else if strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), "DEADMAN_URL") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestTokenIsSentToConfiguredNodeOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	requested := func(env ...string) (*client, error) {
		return inProcess(nil, nil, append(env, "DEADMAN_TOKEN=dm_x", "DEADMAN_DATA_DIR="+dir)...).client()
	}
	refused := func(what string, wantTexts ...string) {
		t.Helper()
		c, err := requested()
		if err == nil {
			t.Errorf("%s: the token would be sent to %s", what, c.base)
			return
		}
		for _, part := range append(wantTexts, "DEADMAN_URL") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v does not contain %q", what, err, part)
			}
		}
	}
	refused("nothing names a node", "http://127.0.0.1:8080")
	if _, err := requested("DEADMAN_URL=https://deadman.example.org"); err != nil {
		t.Error(err)
	}
	for _, address := range []string{
		"http://192.0.2.1:8080", "https://evil.example", "http://127.0.0.1.evil.example", "http://localhost.evil.example:8080", "http://127.0.0.1@evil.example",
		"http://127.0.0.1:8080/steal", "http://127.0.0.1:8080?a=b", "http://u:p@127.0.0.1:8080", "ftp://127.0.0.1",
	} {
		writeFile(t, dir, "endpoints.json", `{"http": "`+address+`"}`)
		refused(address, "endpoints.json", "loopback")
	}
	for _, address := range []string{"http://127.0.0.1:1234", "http://[::1]:1234", "http://localhost:1234"} {
		writeFile(t, dir, "endpoints.json", `{"http": "`+address+`"}`)
		if c, err := requested(); err != nil || c.base != address {
			t.Errorf("%s: %+v, %v", address, c, err)
		}
	}
	file := filepath.Join(dir, "endpoints.json")
	for path, mode := range map[string]os.FileMode{file: 0o602, dir: 0o720} {
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		chmod(t, path, mode)
		refused(path, path, "chmod go-w")
		chmod(t, path, before.Mode())
	}
	if os.Geteuid() == 0 {
		for _, path := range []string{file, dir} {
			chown(t, path, 12345)
			refused(path, path, "12345")
			chown(t, path, 0)
		}
	}
	if _, err := requested(); err != nil {
		t.Errorf("a file of this user's is refused: %v", err)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func chown(t *testing.T, path string, owner int) {
	t.Helper()
	if err := os.Chown(path, owner, -1); err != nil {
		t.Fatal(err)
	}
}
