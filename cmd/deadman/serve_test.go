package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"deadman/internal/bus/bustest"
	"deadman/internal/testwait"
	"deadman/server"
	"deadman/web"
)

var firstSecret = regexp.MustCompile(`\n    token  (dm_\S+)\n    login  (http://\S+)\n`)

// TestLogNamesNode checks that each line of a log that is not a terminal names the node and its version.
func TestLogNamesNode(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		logJSON: fmt.Sprintf(`"node":%q,"version":%q,"component":"sweep"`, server.NodeName(), version),
		logAuto: fmt.Sprintf("node=%s version=%s component=sweep", server.NodeName(), version),
	} {
		var out bytes.Buffer
		newLog(&out, true, serveConfig{format: format}).Info("begun", "component", "sweep")
		if !strings.Contains(out.String(), want) {
			t.Errorf("format %s: %s, want %s", format, out.String(), want)
		}
	}
}

// TestServeBeyondLoopback checks that a node beyond loopback creates and prints a token once, and requires it. With
// --insecure it requires none.
func TestServeBeyondLoopback(t *testing.T) {
	t.Parallel()
	n := &node{dir: t.TempDir()}
	n.args = []string{"serve", "--data-dir", n.dir, "--nats-addr", "127.0.0.1:0", "--http-addr", "0.0.0.0:0", "--log-format", "json"}
	n.start(t)
	n.run(t, "rule", "list").check(t, nil, 1, "Unauthorized", "DEADMAN_TOKEN")
	n.stop(t)
	found := firstSecret.FindStringSubmatch(n.log.String())
	if len(found) != 3 || !strings.HasSuffix(found[2], "/login?token="+found[1]) {
		t.Fatalf("it prints no token:\n%s", n.log)
	}

	n.start(t)
	runBinary(t, append(n.env(), "DEADMAN_TOKEN="+found[1]), "token", "list").check(t, nil, 0, "first", "admin")
	n.stop(t)
	if strings.Contains(n.log.String(), "dm_") {
		t.Errorf("it prints a token again:\n%s", n.log)
	}

	n.args = append(n.args, "--insecure", "--log-format", "text")
	n.start(t)
	n.run(t, "rule", "list").check(t, nil, 0, "no rules")
	n.stop(t)
	if !strings.Contains(n.log.String(), "HTTP API requires no token") {
		t.Errorf("the log does not warn that the node is open:\n%s", n.log)
	}
}

// TestServeCalendars checks that rules may name the calendars given to serve.
func TestServeCalendars(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	known := writeFile(t, dir, "calendars.yaml", "calendars:\n  office: {zone: UTC, days: mon-fri, hours: \"09:00-17:00\"}\n")
	n := &node{dir: dir}
	n.args = []string{"serve", "--data-dir", dir, "--nats-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--calendars", known}
	n.start(t)
	defer n.stop(t)
	for calendar, code := range map[string]int{"office": 0, "ofice": 3} {
		file := writeFile(t, dir, calendar+".yaml", strings.Replace(ruleNamed(calendar), "after: 1h,", "after: 1h, of: "+calendar+",", 1))
		n.run(t, "rule", "apply", "-f", file).check(t, []string{calendar}, code, calendar)
	}
}

// TestSIGHUPReloadsFiles checks that SIGHUP makes a node reload its files and does not end it.
func TestSIGHUPReloadsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := startNodeFlags(t, "", "--notify", writeFile(t, dir, "notify.yaml", "channels: {}\n"), "--sources", writeFile(t, dir, "sources.yaml", "sources: {}\n"))
	writeFile(t, dir, "notify.yaml", "channels: {hook: {kind: webhook, url: http://127.0.0.1:1/}}\n")
	writeFile(t, dir, "sources.yaml", "sources: {shop: {http: {url: http://127.0.0.1:1/, allow: [127.0.0.1]}}}\n")
	sendSignal(t, n.cmd, syscall.SIGHUP)
	testwait.Until(t, "the channel is there", func() bool {
		return len(runJSON[web.Page[web.Channel]](t, n, "channel", "list").Items) == 1
	})
	testwait.Until(t, "the source is there", func() bool {
		return len(runJSON[web.Page[web.Source]](t, n, "source", "list").Items) == 1
	})
}

// TestServeNotifiesSystemd checks that systemd learns when the node serves and when it stops.
func TestServeNotifiesSystemd(t *testing.T) {
	t.Parallel()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(bustest.Dir(t), "s"), Net: "unixgram"}) // at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	receive := func() string {
		t.Helper()
		if err := socket.SetReadDeadline(time.Now().Add(5 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		var b [512]byte
		n, err := socket.Read(b[:])
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	cmd := command(t.Context(), t, []string{"NOTIFY_SOCKET=" + socket.LocalAddr().String(), "DEADMAN_LOG_FORMAT=json"},
		"serve", "--data-dir", bustest.Dir(t), "--http-addr", "127.0.0.1:0", "--nats-addr", "127.0.0.1:0")
	var log bytes.Buffer
	cmd.Stderr = &log
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of the node:\n%s", &log)
		}
	})
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := receive()
	at, found := strings.CutPrefix(ready, "READY=1\nSTATUS=serving ")
	if !found {
		t.Fatalf("systemd receives %q", ready)
	}
	answer, err := http.Get(at + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("the node is ready and answers %d, %v", answer.StatusCode, err)
	}
	sendSignal(t, cmd, syscall.SIGTERM)
	if got := receive(); got != "STOPPING=1" {
		t.Errorf("systemd receives %q as the node stops", got)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the node ends with %v", err)
	}
}
