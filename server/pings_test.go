package server_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"deadman/internal/longtest"
	"deadman/internal/store/storetest"
	"deadman/server"
)

// backups is a rule for pings, with slots short enough for a test.
const backups = `
name: backups
entity: host
trigger: {heartbeat: {every: 24h, grace: 1h, keys: [nightly]}}
slot: 1s
`

// createPingURL creates a ping URL for a key of the rule; for an empty key, it returns the URL with the ping key.
func (n *node) createPingURL(key string) string {
	n.Helper()
	var made struct{ URL string }
	if status := n.call(http.MethodPost, "/api/v1/rules/backups/pings", fmt.Sprintf(`{"key": %q}`, key), &made); status != http.StatusCreated {
		n.Fatalf("address of %s: %d", key, status)
	}
	return made.URL
}

// sendPing sends a ping that must be accepted.
func (n *node) sendPing(path, body string) {
	n.Helper()
	if got := n.callRaw(http.MethodPost, path, body); got.status != http.StatusOK || string(got.body) != "OK" {
		n.Fatalf("%s: %d %s", path, got.status, got.body)
	}
}

// waitForPingLog returns the ping log of a key, oldest first, once it has the number of lines.
func (n *node) waitForPingLog(key string, lines int) (texts []string) {
	n.Helper()
	n.eventually(fmt.Sprintf("%d pings of %s are in the log", lines, key), func() bool {
		var page struct {
			Items []struct {
				Kind, Body string
				Exit       *int `json:"exit_status"`
			}
		}
		n.get("/api/v1/rules/backups/pings/log?key="+key, &page)
		texts = nil
		for _, e := range page.Items {
			text := e.Kind
			if e.Exit != nil {
				text += fmt.Sprint(" ", *e.Exit)
			}
			texts = append([]string{strings.TrimSpace(text + " " + strings.TrimSpace(e.Body))}, texts...)
		}
		return len(texts) >= lines
	})
	return texts
}

// alertStatuses returns the statuses of a key's alerts, newest first.
func (n *node) alertStatuses(key string) string {
	n.Helper()
	var all list
	n.get("/api/v1/alerts?key="+key, &all)
	var statuses []string
	for _, a := range all.Items {
		statuses = append(statuses, a.Status)
	}
	return strings.Join(statuses, " ")
}

// A failure raises an alert at once, and a success resolves it, even on a node that has just started in the slot of
// its predecessor's last check.
func TestPings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := startReadyNode(t, server.Config{DataDir: dir})
	n.saveRule(http.StatusCreated, "", backups)
	own := n.createPingURL("photos")
	n.sendPing(own, "fine")
	n.sendPing(own+"/fail", "no space left")
	n.eventually("the failure raises an alert", func() bool { return n.alertStatuses("photos") == "firing" })
	n.shutDown()

	n = startReadyNode(t, server.Config{DataDir: dir})
	n.sendPing(own, "42 files")
	n.sendPing(own, "43 files")
	n.eventually("the alert is resolved", func() bool { return n.alertStatuses("photos") == "resolved firing" })
	n.sendPing(own, "44 files")
	want := "success fine, fail no space left, success 42 files, success 43 files, success 44 files"
	if got := strings.Join(n.waitForPingLog("photos", 5), ", "); got != want {
		t.Errorf("the log has %s, want %s", got, want)
	}
	var jobs list
	if n.get("/api/v1/jobs?key=photos", &jobs); len(jobs.Items) != 1 {
		t.Errorf("the jobs are %+v", jobs.Items)
	}
}

// A job that starts twice raises an alert that names the distance, whose successes do not resolve it. The next run does.
func TestPingsTooOften(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(*testing.T, *server.Config){
		"SQLite":   func(t *testing.T, c *server.Config) { c.DataDir = t.TempDir() },
		"Postgres": func(t *testing.T, c *server.Config) { c.DatabaseURL, c.NATSURL = storetest.Postgres(t), startNATS(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const least = 5 * time.Second
			var c server.Config
			configure(t, &c)
			n := startReadyNode(t, c)
			n.saveRule(http.StatusCreated, "", strings.Replace(backups, "grace: 1h", "grace: 1h, too_often: 5s", 1))
			own, run := n.createPingURL("nightly"), func(i int) string { return fmt.Sprintf("?rid=0f8fad5b-d9cb-469f-a165-7086772895%02x", i) }
			i, started := 0, time.Time{}
			n.eventually("a run that starts at once after another one raises an alert", func() bool {
				for range 2 {
					i++
					n.sendPing(own+"/start"+run(i), "")
				}
				started = time.Now()
				n.sendPing(own+run(i-1), "")
				n.sendPing(own+run(i), "")
				return n.alertStatuses("nightly") == "firing"
			})
			var all struct {
				Items []struct{ Text, Summary string }
			}
			n.get("/api/v1/alerts?key=nightly", &all)
			if text := fmt.Sprint(all.Items); !strings.Contains(text, "after the previous run, less than 5s") {
				t.Errorf("the alert is %s", text)
			}
			n.eventually("a run may start", func() bool { return time.Since(started) > least })
			if got := n.alertStatuses("nightly"); got != "firing" {
				t.Errorf("before the next run the alerts are %s", got)
			}
			i++
			n.sendPing(own+"/start"+run(i), "")
			n.sendPing(own+run(i), "")
			n.eventually("the next run resolves the alert", func() bool { return n.alertStatuses("nightly") == "resolved firing" })
		})
	}
}

// requireProgram looks up a program that sends pings, or fails with a remedy: build servers must have it.
func requireProgram(t *testing.T, program, remedy string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("the test needs %s, and it is not there; %s", program, remedy)
	}
	t.Skipf("%s is not there; %s", program, remedy)
}

// runCommand runs a program in a folder, and checks its success.
func runCommand(t *testing.T, dir string, well bool, name string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "HOME="+dir, "BORG_BASE_DIR="+dir, "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes")
	if output, err := command.CombinedOutput(); (err == nil) != well {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, output)
	}
}

// Programs that ping healthchecks work with a node unchanged.
func TestPingClients(t *testing.T) {
	t.Parallel()
	n := startReadyNode(t, server.Config{})
	n.saveRule(http.StatusCreated, "", backups)
	for name, ping := range map[string]func(*node){"curl": (*node).checkCurl, "healthchecks-io-client": (*node).checkNPM, "borgmatic": (*node).checkBorgmatic} {
		t.Run(name, func(t *testing.T) {
			of := *n
			of.T = t
			ping(&of)
		})
	}
}

// checkCurl sends pings like a crontab.
func (n *node) checkCurl() {
	requireProgram(n.T, "curl", "install it (Debian, Ubuntu: apt-get install curl)")
	base, all := n.HTTP+n.createPingURL("curl"), n.HTTP+n.createPingURL("")
	const run = "?rid=684e2e73-017e-465f-8149-d70b7c5aaa49"
	options := []string{"-fsS", "-m", "10", "--retry", "5", "-o", os.DevNull}
	for _, args := range [][]string{
		{base + "/start" + run},
		{"--data-raw", "42 files", base + "/0" + run},
		{"-I", base},
		{all + "/curl/17"},
		{all + "/from-curl?create=1"},
	} {
		runCommand(n.T, n.TempDir(), true, "curl", append(options, args...)...)
	}
	runCommand(n.T, n.TempDir(), false, "curl", append(options, n.HTTP+"/ping/07c2f548-9850-4b27-af5d-6c9dc157ec02")...)
	if got := strings.Join(n.waitForPingLog("curl", 4), ", "); got != "start, success 0 42 files, success, fail 17" {
		n.Errorf("the log has %s", got)
	}
	n.waitForPingLog("from-curl", 1)
}

// checkNPM sends pings with an npm package.
func (n *node) checkNPM() {
	longtest.Only(n.T, "it needs Node.js and npm")
	requireProgram(n.T, "npm", "internal/tools/needs node installs it")
	dir := n.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../internal/pings/clienttest")); err != nil {
		n.Fatal(err)
	}
	runCommand(n.T, dir, true, "npm", "ci", "--prefer-offline")
	address := n.createPingURL("npm")
	runCommand(n.T, dir, true, "node", "client.js", n.HTTP+"/ping", strings.TrimPrefix(address, "/ping/"))
	if got := strings.Join(n.waitForPingLog("npm", 4), ", "); got != "start, success backed up 42 files, fail the disk is full, success" {
		n.Errorf("the log has %s", got)
	}
}

// checkBorgmatic backs up a folder with pings for success and failure.
func (n *node) checkBorgmatic() {
	longtest.Only(n.T, "it needs borgmatic")
	requireProgram(n.T, "borgmatic", "internal/tools/needs borgmatic installs it")
	dir := n.TempDir()
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf(borgmaticConfig, dir, n.HTTP+n.createPingURL("borgmatic"))
	for name, content := range map[string]string{config: text, filepath.Join(dir, "photo.txt"): "a photo"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			n.Fatal(err)
		}
	}
	runCommand(n.T, dir, false, "borgmatic", "--config", config, "create") // the repository does not exist
	runCommand(n.T, dir, true, "borg", "init", "--encryption=none", filepath.Join(dir, "repository"))
	runCommand(n.T, dir, true, "borgmatic", "--config", config, "--verbosity", "1", "create")
	texts := n.waitForPingLog("borgmatic", 4)
	for i, want := range []string{"start", "fail", "start", "success"} {
		if !strings.HasPrefix(texts[i], want) {
			n.Errorf("ping %d is %s, want %s", i, texts[i], want)
		}
	}
	if !strings.Contains(texts[1], "repository") {
		n.Errorf("the failure has no reason: %s", texts[1])
	}
}

// borgmaticConfig is a configuration for versions before 1.8, accepted by later ones; its arguments are a folder and
// the URL.
const borgmaticConfig = `
location:
    source_directories: [%[1]s/photo.txt]
    repositories: [%[1]s/repository]
hooks:
    healthchecks:
        ping_url: %[2]s
`
