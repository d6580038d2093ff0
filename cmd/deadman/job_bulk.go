package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"deadman/web"
)

// Limits of one request. The node accepts more bytes, but a smaller request succeeds over a slow line, too.
const (
	loadLines = web.MaxBulkLines
	loadBytes = 8 << 20
)

// Refused lines that are kept, and shown. All of them are counted.
const (
	refusedKept  = 10_000
	refusedShown = 20
)

// load creates the jobs of a file in requests of the largest size.
type load struct {
	p    *cli
	c    *client
	in   *bufio.Reader
	size int64 // size of the file in bytes; 0: unknown
	bar  progressBar

	read  int64 // bytes read
	line  int   // number of the last line read, from 1
	total web.BulkAnswer
}

// createJobs creates the jobs of a file. A path of - means standard input.
func (p *cli) createJobs(cmd *cobra.Command, path string) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	l := &load{p: p, c: c, in: bufio.NewReader(p.in), total: web.BulkAnswer{Stood: []int{}, Wrong: []web.RefusedLine{}}}
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
	l.bar = progressBar{out: p.err, on: l.size > 0 && isTerminal(p.err), all: int(max(l.size>>10, 1))}
	err = l.all(cmd.Context())
	l.bar.clear()
	if err != nil {
		if l.total.Created+l.total.Existed > 0 {
			return fmt.Errorf("%w\nby then %s began; send the same file again: what began stays as it is", err, number(l.total.Created, "wait"))
		}
		return err
	}
	return l.show()
}

// all sends the whole file in parts.
func (l *load) all(ctx context.Context) error {
	for more := true; more; {
		first := l.line
		body, err := l.part()
		if more = err == nil; err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if strings.TrimSpace(string(body)) != "" {
			if err := l.send(ctx, body, first); err != nil {
				return err
			}
		}
		l.bar.show(int(min(l.read, l.size)>>10), fmt.Sprintf("KiB, %s created", thousands(int64(l.total.Created))))
	}
	return nil
}

// part reads the lines of one request. It returns io.EOF with the last part.
func (l *load) part() (body []byte, err error) {
	for lines := 0; lines < loadLines && len(body) < loadBytes && err == nil; lines++ {
		var line []byte
		line, err = l.next()
		if len(line) > web.MaxBulkLine {
			l.refuse(web.RefusedLine{Line: l.line, Message: fmt.Sprintf("the line is over the limit of %d KiB", web.MaxBulkLine>>10)})
			line = nil
		}
		body = append(append(body, line...), '\n')
	}
	return body, err
}

// next reads a line without its end. Of a line over the limit it keeps only enough to detect that.
func (l *load) next() (line []byte, err error) {
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
	raw, err := l.c.ask(ctx, http.MethodPost, "/jobs/bulk", nil, body, http.Header{"Content-Type": {"application/x-ndjson"}})
	if err != nil {
		return err
	}
	var a web.BulkAnswer
	if err := json.Unmarshal(raw, &a); err != nil {
		return l.c.unreadable(err)
	}
	l.total.Created += a.Created
	l.total.Existed += a.Existed
	for _, line := range a.Stood {
		if len(l.total.Stood) < refusedKept {
			l.total.Stood = append(l.total.Stood, after+line)
		}
	}
	for _, w := range a.Wrong {
		w.Line += after
		l.refuse(w)
	}
	return nil
}

func (l *load) refuse(w web.RefusedLine) {
	l.total.Refused++
	if len(l.total.Wrong) < refusedKept {
		l.total.Wrong = append(l.total.Wrong, w)
	}
}

// show prints the result of the file. Refused lines end the command with exit code 3.
func (l *load) show() error {
	t := l.total
	if err := l.say(t); err != nil {
		return err
	}
	if t.Refused > 0 {
		return silentError{exitCondition}
	}
	return nil
}

func (l *load) say(t web.BulkAnswer) error {
	if l.p.output == asJSON {
		return writeValue(l.p.out, t)
	}
	for _, w := range t.Wrong[:min(len(t.Wrong), refusedShown)] {
		at := fmt.Sprintf("line %d", w.Line)
		if w.Field != "" {
			at += ", " + w.Field
		}
		fmt.Fprintf(l.p.err, "%s: %s\n", l.p.palette.paint(red, at), sanitize(w.Message))
	}
	if more := t.Refused - refusedShown; more > 0 {
		fmt.Fprintf(l.p.err, "and %s more; -o json has them\n", thousands(int64(more)))
	}
	said := []string{"created: " + thousands(int64(t.Created))}
	if t.Existed > 0 {
		said = append(said, "waited for already: "+thousands(int64(t.Existed)))
	}
	if t.Refused > 0 {
		said = append(said, "refused: "+thousands(int64(t.Refused)))
	}
	_, err := fmt.Fprintln(l.p.out, strings.Join(said, "; "))
	return err
}
