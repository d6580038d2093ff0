package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"deadman/web"
)

// Limits of one request. The node accepts more bytes, but a smaller request succeeds over a slow line, too.
const (
	loadLines = web.MaxBulkLines
	loadBytes = 8 << 20
)

// A request that the node answers with 503 has no effect, and is sent again. The pause doubles, and is at least as long as the
// node requests; a node that requests a longer pause than the longest one is away.
const (
	loadAttempts  = 6
	loadFirstWait = time.Second
	loadMaxWait   = 30 * time.Second
)

// Refused lines that are kept, and shown. All of them are counted.
const (
	refusedKept  = 10_000
	refusedShown = 20
)

// loaded is the result of a file of lines, summed up over its requests.
type loaded interface {
	// path returns the path of the API that takes the lines.
	path() string
	// add adds the response to lines that begin after line after of the file. It returns the refused lines, numbered as in
	// the response.
	add(response []byte, after int) ([]web.RefusedLine, error)
	// refusals returns the number of refused lines, and the list of those that are kept.
	refusals() (all *int, kept *[]web.RefusedLine)
	// counts returns the counts of the result, in the order in which they are shown.
	counts() []loadCount
	// progress returns what took effect, such as "7 jobs created".
	progress() string
	// again returns what happens to lines that took effect if the file is sent again.
	again() string
	// value returns the result for JSON.
	value() any
	// refusedErr returns the end of the command after refused lines.
	refusedErr() error
}

// loadCount is a count of a result.
type loadCount struct {
	name   string
	n      int
	always bool // shown even if 0
}

// load sends a file in requests of the largest size.
type load struct {
	io   *cli
	c    *client
	in   *bufio.Reader
	size int64 // size of the file in bytes; 0: unknown
	bar  progressBar

	read  int64 // bytes read
	line  int   // number of the last line read, from 1
	total loaded
	pause func(ctx context.Context, wait time.Duration) error
}

// loadFile sends the lines of a file. A path of - means standard input.
func loadFile(io *cli, cmd *cobra.Command, path string, total loaded) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	l := &load{io: io, c: c, in: bufio.NewReader(io.input), total: total, pause: pauseFor}
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return usageError{err}
		}
		defer func() { _ = file.Close() }() // it was only read
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			l.size = info.Size()
		}
		l.in = bufio.NewReaderSize(file, 1<<20)
	}
	l.bar = progressBar{out: io.err, on: l.size > 0 && isTerminal(io.err), all: int(max(l.size>>10, 1))}
	err = l.sendAll(cmd.Context())
	l.bar.clear()
	if err != nil {
		return err
	}
	return l.show()
}

// unconfirmed returns the error of a part of the file that begins after line after: this and the later lines are not confirmed.
func (l *load) unconfirmed(err error, after int) error {
	if after == 0 {
		return err
	}
	return fmt.Errorf("%w\n%s before the error; the lines from %s on are not confirmed: send the same file again, %s",
		err, l.total.progress(), humanize.Comma(int64(after+1)), l.total.again())
}

// sendAll sends the whole file in parts.
func (l *load) sendAll(ctx context.Context) error {
	for more := true; more; {
		first := l.line
		body, err := l.readPart()
		if more = err == nil; err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if strings.TrimSpace(string(body)) != "" {
			if err := l.send(ctx, body, first); err != nil {
				return l.unconfirmed(err, first)
			}
		}
		l.bar.show(int(min(l.read, l.size)>>10), "KiB, "+l.total.progress())
	}
	return nil
}

// readPart reads the lines of one request. It returns io.EOF with the last part.
func (l *load) readPart() (body []byte, err error) {
	for lines := 0; lines < loadLines && len(body) < loadBytes && err == nil; lines++ {
		var line []byte
		line, err = l.readLine()
		if len(line) > web.MaxBulkLine {
			l.refuse(web.RefusedLine{Line: l.line, Message: fmt.Sprintf("the line exceeds the limit of %d KiB", web.MaxBulkLine>>10)})
			line = nil
		}
		body = append(append(body, line...), '\n')
	}
	return body, err
}

// readLine reads a line without its end. Of a line over the limit it keeps only enough to detect that.
func (l *load) readLine() (line []byte, err error) {
	for {
		var part []byte
		part, err = l.in.ReadSlice('\n')
		l.read += int64(len(part))
		if len(line) <= web.MaxBulkLine {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
	}
	l.line++
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	return line, err
}

// send sends lines that begin after line after of the file, and adds the results to the total.
func (l *load) send(ctx context.Context, body []byte, after int) error {
	raw, err := l.post(ctx, body)
	if err != nil {
		return err
	}
	refused, err := l.total.add(raw, after)
	if err != nil {
		return l.c.unreadable(err)
	}
	for _, w := range refused {
		w.Line += after
		l.refuse(w)
	}
	return nil
}

// post sends a request, again while the node answers with 503, and returns the response.
func (l *load) post(ctx context.Context, body []byte) (raw []byte, err error) {
	for attempt := 1; ; attempt++ {
		raw, err = l.c.request(ctx, http.MethodPost, l.total.path(), nil, body, http.Header{"Content-Type": {"application/x-ndjson"}})
		var r refusal
		if !errors.As(err, &r) || r.Status != http.StatusServiceUnavailable {
			return raw, err
		}
		if attempt == loadAttempts || r.retryAfter > loadMaxWait {
			return nil, fmt.Errorf("%w\ngiven up after %s", err, number(attempt, "attempt"))
		}
		wait := max(r.retryAfter, min(loadFirstWait<<(attempt-1), loadMaxWait))
		wait += rand.N(wait / 2) // so that several clients do not come back together
		l.bar.clear()
		fmt.Fprintf(l.io.err, "%s\nattempt %d of %d in %s\n", sanitize(err.Error()), attempt+1, loadAttempts, wait.Round(100*time.Millisecond))
		if err := l.pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// pauseFor waits.
func pauseFor(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (l *load) refuse(w web.RefusedLine) {
	all, kept := l.total.refusals()
	if *all++; len(*kept) < refusedKept {
		*kept = append(*kept, w)
	}
}

// show prints the result of the file. Refused lines end the command with exit code 3.
func (l *load) show() error {
	if err := l.print(); err != nil {
		return err
	}
	if all, _ := l.total.refusals(); *all > 0 {
		return l.total.refusedErr()
	}
	return nil
}

func (l *load) print() error {
	if l.io.output == asJSON {
		return writeValue(l.io.out, l.total.value())
	}
	all, kept := l.total.refusals()
	for _, w := range (*kept)[:min(len(*kept), refusedShown)] {
		at := fmt.Sprintf("line %d", w.Line)
		if w.Field != "" {
			at += ", " + w.Field
		}
		fmt.Fprintf(l.io.err, "%s: %s\n", l.io.palette.paint(red, at), sanitize(w.Message))
	}
	if more := *all - refusedShown; more > 0 {
		fmt.Fprintf(l.io.err, "and %s more; use -o json to list them\n", humanize.Comma(int64(more)))
	}
	if w, is := l.total.(interface{ warning() string }); is && w.warning() != "" {
		fmt.Fprintf(l.io.err, "%s: %s\n", l.io.palette.paint(yellow, "warning"), w.warning())
	}
	var parts []string
	for _, count := range l.total.counts() {
		if count.n > 0 || count.always {
			parts = append(parts, count.name+": "+humanize.Comma(int64(count.n)))
		}
	}
	_, err := fmt.Fprintln(l.io.out, strings.Join(parts, "; "))
	return err
}
