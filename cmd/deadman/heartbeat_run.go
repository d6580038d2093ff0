package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"deadman/internal/pings"
)

const (
	pingAttempts = 5                // of one ping; the pauses between them are 1, 2, 4 and 8 s
	pingTimeout  = 10 * time.Second // of one attempt
	stopTime     = 30 * time.Second // for the command after a signal, and for its children that keep its output open after its end
)

// runIDVariable has the id of a run for its command.
const runIDVariable = "DEADMAN_RUN_ID"

// Exit statuses of a shell for a command that did not run to its end by itself.
const (
	statusNotRun   = 127
	statusSignaled = 128 // and the number of the signal
)

func newHeartbeatRunCmd(io *cli) *cobra.Command {
	var noOutput bool
	cmd := &cobra.Command{
		Use: "run URL -- COMMAND [ARGUMENT]...", Short: "Run a command between two pings: a start, and its exit status with its output",
		Long: "Sends a ping of a start to a ping URL, runs a command, and sends its exit status and the end of its output.\n" +
			"Input, output and exit code are those of the command. A ping that fails is repeated, and never keeps the\n" +
			"command from running. A signal is passed to the command, which has 30 seconds to end.\n" +
			"It finds the id of its run in " + runIDVariable + ".",
		Example: `  deadman heartbeat run https://deadman.example.org/ping/5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278 -- backup-photos --full`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 1 || len(args) < 2 {
				return usage("%s requires a ping URL, --, and a command: deadman heartbeat run URL -- COMMAND", commandName(cmd))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			u, err := url.Parse(args[0])
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				return usage("the first argument is not the URL of a ping; deadman rule pings RULE --key KEY prints it")
			}
			run := pingedRun{cli: io, url: u, id: uuid.NewString(), client: &http.Client{Timeout: pingTimeout}, sendsOutput: !noOutput}
			if status := run.run(cmd.Context(), args[1:]); status != 0 {
				return silentError{status}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&noOutput, "no-output", false, "send no output of the command")
	return cmd
}

// pingedRun is a run of a command between two pings.
type pingedRun struct {
	*cli
	url         *url.URL
	id          string
	client      *http.Client
	sendsOutput bool
}

// run runs a command and returns its exit status. A signal for this process is passed to the command.
func (p pingedRun) run(ctx context.Context, command []string) int {
	working := context.WithoutCancel(ctx) // the end is reported after a signal, too
	var starting sync.WaitGroup
	starting.Go(func() { p.ping(working, "start", "") })

	c := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the caller's command
	c.Cancel = func() error {
		if err := c.Process.Signal(syscall.SIGTERM); err == nil {
			return nil
		}
		return c.Process.Kill()
	}
	c.WaitDelay = stopTime
	c.Env = append(p.env, runIDVariable+"="+p.id)
	c.Stdin, c.Stdout, c.Stderr = p.in, p.out, p.err
	var tail outputTail
	if p.sendsOutput {
		c.Stdout, c.Stderr = io.MultiWriter(p.out, &tail), io.MultiWriter(p.err, &tail)
	}
	err := c.Run()
	status := exitStatusOf(c, err)
	if status == statusNotRun {
		p.warn("the command could not be run: %v", err)
		fmt.Fprintf(&tail, "%v\n", err)
	}
	starting.Wait() // the order of the pings is that of the run
	p.ping(working, strconv.Itoa(status), tail.String())
	return status
}

// exitStatusOf returns the exit status of a command as a shell has it, also of one that a signal for this process ended.
func exitStatusOf(c *exec.Cmd, err error) int {
	if c.ProcessState == nil {
		return statusNotRun
	}
	if how, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && how.Signaled() {
		return statusSignaled + int(how.Signal())
	}
	if status := c.ProcessState.ExitCode(); status > 0 || err == nil || errors.Is(err, exec.ErrWaitDelay) || errors.Is(err, context.Canceled) {
		return min(status, 255) // statuses of Windows may be larger
	}
	return exitFailure // such as output that could not be written
}

// ping sends a ping, several times if need be. A failure is a warning: the command matters more.
func (p pingedRun) ping(ctx context.Context, signal, body string) {
	pause := time.Second
	for attempt := 1; ; attempt++ {
		again, err := p.post(ctx, signal, body)
		if err == nil {
			return
		}
		if !again || attempt == pingAttempts {
			p.warn("the ping %s was not accepted in %s: %v", signal, number(attempt, "attempt"), err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// post sends a ping once. again reports whether another attempt may succeed. The error does not have the URL, a secret.
func (p pingedRun) post(ctx context.Context, signal, body string) (again bool, err error) {
	u := p.url.JoinPath(signal)
	query := u.Query()
	query.Set("rid", p.id)
	u.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(body))
	if err != nil {
		return false, errors.New("the URL is invalid")
	}
	request.Header.Set("User-Agent", "deadman/"+version)
	answer, err := p.client.Do(request)
	var failed *url.Error
	if errors.As(err, &failed) {
		return true, failed.Err
	}
	if err != nil {
		return true, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 200))
	switch {
	case answer.StatusCode < http.StatusMultipleChoices:
		return false, nil
	case err != nil:
		return true, err
	}
	again = answer.StatusCode >= http.StatusInternalServerError || answer.StatusCode == http.StatusTooManyRequests ||
		answer.StatusCode == http.StatusRequestTimeout // the body arrived incompletely or too slowly
	return again, fmt.Errorf("%s: %s", answer.Status, sanitize(strings.TrimSpace(string(text))))
}

func (p pingedRun) warn(format string, args ...any) {
	_, _ = fmt.Fprintf(p.err, "deadman: "+format+"\n", args...) // nothing else could report it
}

// outputTail keeps the end of what is written to it, one byte more than the body of a ping has.
type outputTail struct {
	mu    sync.Mutex
	bytes []byte
}

func (t *outputTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes = append(t.bytes, p...)
	if more := len(t.bytes) - pings.MaxBody - 1; more > 0 {
		t.bytes = append(t.bytes[:0], t.bytes[more:]...)
	}
	return len(p), nil
}

// String returns the end of the output as valid text of at most the size of the body of a ping: whole lines, if it is cut.
func (t *outputTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.ToValidUTF8(string(t.bytes), "\uFFFD")
	if len(t.bytes) <= pings.MaxBody && len(text) <= pings.MaxBody {
		return text
	}
	text = text[max(0, len(text)-pings.MaxBody-1):]
	if _, lines, found := strings.Cut(text, "\n"); found && lines != "" {
		return lines
	}
	for len(text) > pings.MaxBody || !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}
