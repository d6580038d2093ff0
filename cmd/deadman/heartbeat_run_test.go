package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/testwait"
	"deadman/web"
)

// TestHeartbeatRun runs commands between pings to a real node: its log has the start and the end of each run, with the exit
// status, the end of the output and the duration.
func TestHeartbeatRun(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "backup.yaml", pingedRule))
	address := strings.TrimSpace(n.mustRun("rule", "pings", "backup", "--key", "nightly"))
	type entry struct {
		Kind   string
		Status int // -1: none
		Body   string
	}
	var want []entry // newest first
	for _, c := range []struct {
		args []string
		code int
		body string
	}{
		{[]string{"--", "sh", "-c", "echo saved; echo 3 files"}, 0, "saved\n3 files\n"},
		{[]string{"--", "sh", "-c", "echo full >&2; exit 7"}, 7, "full\n"},
		{[]string{"--no-output", "--", "sh", "-c", "echo secret; exit 3"}, 3, ""},
		{[]string{"--", "sh", "-c", "kill -9 $$"}, 137, ""},
		{[]string{"--", "sh", "-c", `head -c 20000 /dev/zero | tr '\0' x; echo; echo "$DEADMAN_RUN_ID" | wc -c; exit 4`}, 4, "37\n"},
		{[]string{"--", "sh", "-c", `echo first; head -c 9994 /dev/zero | tr '\0' x`}, 0, "first\n" + strings.Repeat("x", 9994)},
		{[]string{"--", "sh", "-c", `head -c 11000 /dev/zero | tr '\0' x`}, 0, strings.Repeat("x", 10000)},
		{[]string{"--", "sh", "-c", `echo cut; yes "$(printf 'x\303')" | head -n 3000; echo the end`}, 0, strings.Repeat("x\uFFFD\n", 1998) + "the end\n"},
		{[]string{"--", "/no/such/command"}, 127, "fork/exec /no/such/command: no such file or directory\n"},
	} {
		got := n.run("", append([]string{"heartbeat", "run", address}, c.args...)...)
		if got.code != c.code {
			t.Errorf("%v: exit code %d, want %d: %s", c.args, got.code, c.code, got.err)
		}
		kind := "success"
		if c.code != 0 {
			kind = "fail"
		}
		want = append([]entry{{kind, c.code, c.body}, {"start", -1, ""}}, want...)
	}
	log := func() []web.PingEntry {
		return readJSON[web.Page[web.PingEntry]](n, "rule", "pings", "backup", "--log", "--key", "nightly").Items
	}
	testwait.Until(t, "the pings are in the log", func() bool { return len(log()) == len(want) })
	var got []entry
	for i, e := range log() {
		one := entry{e.Kind, -1, e.Body}
		if e.Exit != nil {
			one.Status = *e.Exit
		}
		got = append(got, one)
		if e.Run == "" || i%2 == 1 && e.Run != log()[i-1].Run {
			t.Errorf("the run of entry %d is %q", i, e.Run)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
	for _, args := range [][]string{{address}, {address, "true"}, {"--", "true"}, {address, "x", "--", "true"}, {"backup", "--", "true"}, {address, "--"}} {
		if got := n.run("", append([]string{"heartbeat", "run"}, args...)...); got.code != exitUsage || strings.Contains(got.err, "/ping/") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// A command runs, and its exit code counts, whatever becomes of the pings. The messages have no URL, which is a secret.
func TestHeartbeatRunWithoutNode(t *testing.T) {
	t.Parallel()
	var refusals atomic.Int32
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch refusals.Add(1) { // the ping of the start is repeated
		case 1:
			http.Error(w, "later", http.StatusServiceUnavailable)
		case 2:
			http.Error(w, "the body is incomplete", http.StatusRequestTimeout)
		default:
			http.Error(w, "not found", http.StatusNotFound)
		}
	}))
	t.Cleanup(failing.Close)
	var out, problems bytes.Buffer
	c := newCLI(strings.NewReader("input"), &out, &problems, os.Environ())
	if code := c.run(t.Context(), []string{"heartbeat", "run", failing.URL + "/ping/secret", "--", "sh", "-c", "cat; exit 5"}); code != 5 || out.String() != "input" {
		t.Errorf("exit code %d with the output %q", code, &out)
	}
	if got := problems.String(); refusals.Load() != 4 || !strings.Contains(got, "deadman: the ping start was not accepted in 3 attempts: 404 Not Found: not found\n") ||
		!strings.Contains(got, "deadman: the ping 5 was not accepted in 1 attempt: 404 Not Found: not found\n") || strings.Contains(got, "secret") {
		t.Errorf("%d requests: %s", refusals.Load(), got)
	}
}

// A signal ends the command, which may clean up, and the end of the run is reported with the exit status of the command.
func TestHeartbeatRunPassesSignals(t *testing.T) {
	t.Parallel()
	for _, status := range []int{0, 42} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			paths := make(chan string, 10)
			node := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { paths <- r.URL.Path }))
			t.Cleanup(node.Close)
			begun := filepath.Join(t.TempDir(), "begun")
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan int, 1)
			go func() {
				ended <- newCLI(strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer), os.Environ()).run(ctx, []string{
					"heartbeat", "run", node.URL + "/ping/x", "--", "sh", "-c",
					fmt.Sprintf(`trap 'exit %d' TERM; touch "$0"; while :; do sleep 0.05; done`, status), begun,
				})
			}()
			testwait.Until(t, "the command runs", func() bool { _, err := os.Stat(begun); return err == nil })
			stop() // as a signal for the process does
			select {
			case code := <-ended:
				if first, last := <-paths, <-paths; code != status || first != "/ping/x/start" || last != fmt.Sprintf("/ping/x/%d", status) {
					t.Errorf("exit code %d, and the pings %s and %s", code, first, last)
				}
			case <-time.After(time.Minute):
				t.Fatal("the command does not end")
			}
		})
	}
}
