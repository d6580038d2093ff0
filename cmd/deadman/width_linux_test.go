package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"deadman/internal/testwait"
	"deadman/web"
)

// pseudoTerminal opens a terminal with a width. screen receives its output.
func pseudoTerminal(t *testing.T, width uint16) (terminal, screen *os.File) {
	t.Helper()
	screen = openFile(t, "/dev/ptmx")
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal = openFile(t, fmt.Sprintf("/dev/pts/%d", number))
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width}); err != nil {
		t.Fatal(err)
	}
	return terminal, screen
}

// TestTableOnTerminal checks that a table fits a real terminal by clipping its columns.
func TestTableOnTerminal(t *testing.T) {
	terminal, screen := pseudoTerminal(t, 60)
	if got := terminalWidth(terminal); got != 60 {
		t.Errorf("a terminal of 60 letters is %d wide", got)
	}
	p := newCLI(strings.NewReader(""), terminal, io.Discard, []string{"NO_COLOR=1"})
	if code := p.run(t.Context(), []string{"config", "--rules", strings.Repeat("long/", 60)}); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	lines, clipped := bufio.NewScanner(screen), false
	for range 1 + len(settings) {
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		line := strings.TrimRight(lines.Text(), " \r")
		clipped = clipped || strings.HasPrefix(line, "rules") && strings.Contains(line, "long/long") && strings.Contains(line, "…")
		if n := utf8.RuneCountInString(line); n > 60 {
			t.Errorf("%d letters: %s", n, line)
		}
	}
	if !clipped {
		t.Error("nothing was clipped")
	}
}

// TestLongTextsOnTerminal checks that a terminal of 80 characters gets no wider lines, and the whole text of an alert; and
// that an alert has the next alert of its job, as the job has.
func TestLongTextsOnTerminal(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rule.yaml", `name: order-unshipped-of-warehouse
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate:
  - {after: 1s, step: warehouse, severity: warning, text: 'order {{key}} has not left the warehouse of {{event.site}}; ask the shift lead there, and look at the belt'}
  - {after: 10d, step: management, severity: critical}
slot: 1s
`))
	const key, text = "2026-000-1234", "order 2026-000-1234 has not left the warehouse of Hamburg; ask the shift lead there, and look at the belt"
	const next = "next alert     critical management, unless orders.shipped"
	n.mustRun("event", "send", "orders.created", `{"id": "`+key+`", "site": "Hamburg"}`)
	var id string
	testwait.Until(t, "the alert is raised", func() bool {
		raised := readJSON[web.Page[web.Alert]](n, "alert", "list").Items
		if len(raised) == 1 {
			id = raised[0].ID.String()
		}
		return len(raised) == 1
	})
	for _, c := range []struct {
		args  []string
		parts []string
	}{
		{[]string{"alert", "tail"}, []string{"order-unshipped-of-warehouse", text}},
		{[]string{"explain", "order", key}, []string{text, next}},
		{[]string{"job", "get", "order-unshipped-of-warehouse", key}, []string{next}},
		{[]string{"alert", "get", id}, []string{text, next}},
	} {
		screen := n.runOnTerminal(80, "belt", c.args...)
		for line := range strings.Lines(screen) {
			if got := utf8.RuneCountInString(strings.TrimRight(line, "\r\n")); got > 80 {
				t.Errorf("%v: %d letters: %s", c.args, got, line)
			}
		}
		whole := strings.Join(strings.Fields(screen), " ")
		for _, part := range c.parts {
			if !strings.Contains(whole, strings.Join(strings.Fields(part), " ")) {
				t.Errorf("%v has no %q:\n%s", c.args, part, screen)
			}
		}
	}
	if got := n.mustRun("alert", "get", id); !strings.Contains(got, text+"\n") {
		t.Errorf("a pipe gets broken lines:\n%s", got)
	}
	n.mustRun("job", "cancel", "order-unshipped-of-warehouse", key)
	if got := n.mustRun("alert", "get", id); strings.Contains(got, "next") || !strings.HasPrefix(got, "closed         by loopback at ") || !strings.Contains(got, ", closed\n") {
		t.Errorf("the job was cancelled, and its alert has a next step or no end:\n%s", got)
	}
}

// runOnTerminal runs a command on a terminal with a width, and returns its output. A command without end is stopped once
// its output has a text.
func (h *inProcessNode) runOnTerminal(width uint16, last string, args ...string) string {
	h.t.Helper()
	terminal, screen := pseudoTerminal(h.t, width)
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	var out strings.Builder
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			size, err := screen.Read(buffer)
			if err != nil {
				return // the other side is closed
			}
			if out.Write(buffer[:size]); args[len(args)-1] == "tail" && strings.Contains(out.String(), last) {
				cancel()
			}
		}
	}()
	code := newCLI(strings.NewReader(""), terminal, io.Discard, append([]string{"NO_COLOR=1"}, h.env...)).run(ctx, args)
	if err := terminal.Close(); err != nil || code != exitOK {
		h.t.Fatalf("%v: exit code %d, %v", args, code, err)
	}
	<-read
	return out.String()
}

// TestWrapText checks the lines of texts with words that are as long as a line, and longer.
func TestWrapText(t *testing.T) {
	for _, c := range []struct {
		text string
		room int
		want []string
	}{
		{"a bc  def", 0, []string{"a bc  def"}},
		{"a bc  def", 9, []string{"a bc  def"}},
		{"a bc  def", 8, []string{"a bc", "def"}},
		{"a bc  def", 4, []string{"a bc", "def"}},
		{"über süß", 4, []string{"über", "süß"}},
		{"see https://example.com/runbook now", 8, []string{"see", "https://example.com/runbook", "now"}},
		{"https://example.com", 8, []string{"https://example.com"}},
		{"", 8, []string{""}},
	} {
		if got := wrapText(c.text, c.room); !slices.Equal(got, c.want) {
			t.Errorf("%q in %d: %q, want %q", c.text, c.room, got, c.want)
		}
	}
}

func TestPipeHasNoWidth(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if got := terminalWidth(w); got != 0 {
		t.Errorf("a pipe is %d wide", got)
	}
}

func openFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
