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

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"deadman/web"
)

func newJobCreateCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "create RULE KEY | create -f FILE", Short: "Create a job manually, or the jobs of a file",
		Long: `Creates a job manually, as a trigger event would. With -f it creates the jobs of a file of any size:
each line is a JSON object as accepted by POST /api/v1/jobs. An invalid line does not affect the
others. Existing jobs stay unchanged, so the same file can be sent again.`,
		Example: `  deadman job create order-unshipped 1234 --event '{"id": "1234", "total": 12.5}' --since -2h
  deadman job create -f jobs.ndjson    # {"rule": "order-unshipped", "key": "1234", "event": {...}, "since": "..."}`,
		ValidArgsFunction: completeRule(io),
	}
	event := textFlag(cmd.Flags(), "event", "json", "", "body of the trigger event: JSON, @FILE, or - for standard input")
	since := textFlag(cmd.Flags(), "since", "time", "", "start of the job (15:04, 2026-01-31T15:04:05Z, -2h; default: now)")
	file := new(string)
	cmd.Flags().VarP(typedText{file, "file"}, "file", "f", "file of jobs, one JSON object per line; - for standard input")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if *file == "" {
			return exactly("RULE", "KEY")(cmd, args)
		}
		if *event != "" || *since != "" || len(args) > 0 {
			return usage("%s -f accepts no RULE, KEY, --event or --since; each line of the file has its own", commandName(cmd))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *file != "" {
			return createJobs(io, cmd, *file)
		}
		j := web.JobRequest{Rule: web.Identifier(args[0]), Key: web.Identifier(args[1])}
		var err error
		if j.Event, err = io.jsonFlag(cmd.Context(), "event", *event); err != nil {
			return err
		}
		if j.Since, err = io.instantFlag("since", *since, io.now()); err != nil {
			return err
		}
		return postJob(io, cmd, "/jobs", nil, j)
	}
	return cmd
}

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
	io   *cli
	c    *client
	in   *bufio.Reader
	size int64 // size of the file in bytes; 0: unknown
	bar  progressBar

	read  int64 // bytes read
	line  int   // number of the last line read, from 1
	total web.BulkResult
}

// createJobs creates the jobs of a file. A path of - means standard input.
func createJobs(io *cli, cmd *cobra.Command, path string) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	l := &load{io: io, c: c, in: bufio.NewReader(io.stdin(cmd.Context())), total: web.BulkResult{ExistedLines: []int{}, RefusedLines: []web.RefusedLine{}}}
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
		if l.total.Created+l.total.Existed > 0 {
			return fmt.Errorf("%w\n%s created before the error; send the same file again, existing jobs stay unchanged", err, number(l.total.Created, "job"))
		}
		return err
	}
	return l.show()
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
				return err
			}
		}
		l.bar.show(int(min(l.read, l.size)>>10), fmt.Sprintf("KiB, %s created", humanize.Comma(int64(l.total.Created))))
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
	raw, err := l.c.request(ctx, http.MethodPost, "/jobs/bulk", nil, body, http.Header{"Content-Type": {"application/x-ndjson"}})
	if err != nil {
		return err
	}
	var a web.BulkResult
	if err := json.Unmarshal(raw, &a); err != nil {
		return l.c.unreadable(err)
	}
	l.total.Created += a.Created
	l.total.Existed += a.Existed
	for _, line := range a.ExistedLines {
		if len(l.total.ExistedLines) < refusedKept {
			l.total.ExistedLines = append(l.total.ExistedLines, after+line)
		}
	}
	for _, w := range a.RefusedLines {
		w.Line += after
		l.refuse(w)
	}
	return nil
}

func (l *load) refuse(w web.RefusedLine) {
	l.total.Refused++
	if len(l.total.RefusedLines) < refusedKept {
		l.total.RefusedLines = append(l.total.RefusedLines, w)
	}
}

// show prints the result of the file. Refused lines end the command with exit code 3.
func (l *load) show() error {
	t := l.total
	if err := l.print(t); err != nil {
		return err
	}
	if t.Refused > 0 {
		return unmetCreate.err()
	}
	return nil
}

func (l *load) print(t web.BulkResult) error {
	if l.io.output == asJSON {
		return writeValue(l.io.out, t)
	}
	for _, w := range t.RefusedLines[:min(len(t.RefusedLines), refusedShown)] {
		at := fmt.Sprintf("line %d", w.Line)
		if w.Field != "" {
			at += ", " + w.Field
		}
		fmt.Fprintf(l.io.err, "%s: %s\n", l.io.palette.paint(red, at), sanitize(w.Message))
	}
	if more := t.Refused - refusedShown; more > 0 {
		fmt.Fprintf(l.io.err, "and %s more; use -o json to list them\n", humanize.Comma(int64(more)))
	}
	parts := []string{"created: " + humanize.Comma(int64(t.Created))}
	if t.Existed > 0 {
		parts = append(parts, "existing: "+humanize.Comma(int64(t.Existed)))
	}
	if t.Refused > 0 {
		parts = append(parts, "refused: "+humanize.Comma(int64(t.Refused)))
	}
	_, err := fmt.Fprintln(l.io.out, strings.Join(parts, "; "))
	return err
}
