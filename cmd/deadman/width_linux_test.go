package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
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
