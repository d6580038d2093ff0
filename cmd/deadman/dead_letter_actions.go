package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"deadman/web"
)

// deadLetterSelection selects the dead letters of a command, by ids or by a filter.
type deadLetterSelection struct {
	ids                   []string
	rule, subject, reason string
	all                   bool
}

func (l *deadLetterSelection) flags(flags *pflag.FlagSet) {
	flags.StringVar(&l.rule, "rule", "", "those that this rule could not take in")
	flags.StringVar(&l.subject, "subject", "", "those that came on this subject")
	flags.StringVar(&l.reason, "reason", "", "those that were refused for this reason, word by word")
	flags.BoolVar(&l.all, "all", false, "all that there are")
}

// take checks the ids, and that exactly one kind of selection is given.
func (l *deadLetterSelection) take(cmd *cobra.Command, ids []string) error {
	for _, id := range ids {
		if n, err := strconv.ParseInt(id, 10, 64); err != nil || n < 1 {
			return usage("%q is no id of a dead letter; deadman dead-letter list shows them", id)
		}
	}
	l.ids = ids
	ways := 0
	for _, given := range []bool{len(ids) > 0, l.rule+l.subject+l.reason != "", l.all} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return usage("%s takes IDs, or --rule, --subject and --reason, or --all", cmd.CommandPath())
	}
	return nil
}

// query returns the filter for the API.
func (l *deadLetterSelection) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"rule": l.rule, "subject": l.subject, "reason": l.reason} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if l.all {
		q.Set("all", "true")
	}
	return q
}

func (p *cli) retryLettersCommand() *cobra.Command {
	var meant deadLetterSelection
	cmd := &cobra.Command{
		Use: "retry [ID…]", Short: "Take the events of dead letters in, by the rules as they are now",
		Long: `Takes the events of dead letters in, by the rules as they are now, oldest first, each once.

They come late: what came after them was taken in without them, and is not taken in again. A
letter that is refused again stays, with the new reason; then the exit code is 1.`,
		Example: `  deadman dead-letter retry 7 8
  deadman dead-letter retry --rule order-unshipped`,
	}
	meant.flags(cmd.Flags())
	cmd.Args = meant.take
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := p.client()
		if err != nil {
			return err
		}
		done, err := p.retryLetters(cmd, c, meant)
		if err != nil {
			return err
		}
		return p.showRetried(done)
	}
	return cmd
}

// retryLetters retries the selection in as many requests as necessary.
func (p *cli) retryLetters(cmd *cobra.Command, c *client, meant deadLetterSelection) (sum web.Retried, err error) {
	add := func(path string, query url.Values) error {
		one, _, err := tell[web.Retried](cmd.Context(), c, http.MethodPost, path, query, nil)
		sum.Tried, sum.TakenIn, sum.Refused = sum.Tried+one.Tried, sum.TakenIn+one.TakenIn, sum.Refused+one.Refused
		sum.Reason, sum.Next = one.Reason, one.Next
		return err
	}
	for _, id := range meant.ids {
		if err := add("/dead-letters/"+id+"/retry", nil); err != nil {
			return sum, err
		}
		if sum.Reason != "" && p.output != asJSON {
			fmt.Fprintf(p.err, "dead letter %s is refused again: %s\n", id, sanitize(sum.Reason))
		}
	}
	if len(meant.ids) > 0 {
		return sum, nil
	}
	query := meant.query()
	for {
		if err := add("/dead-letters/retry", query); err != nil || sum.Next == 0 {
			return sum, err
		}
		query.Set("after", strconv.FormatInt(sum.Next, 10))
	}
}

func (p *cli) showRetried(done web.Retried) (err error) {
	if p.output == asJSON {
		err = writeValue(p.out, done)
	} else {
		_, err = fmt.Fprintf(p.out, "retried: %s; %d taken in, %d refused again\n", number(done.Tried, "dead letter"), done.TakenIn, done.Refused)
	}
	if err == nil && done.Refused > 0 {
		return silentError{exitFailure}
	}
	return err
}

func (p *cli) dropLettersCommand() *cobra.Command {
	var meant deadLetterSelection
	cmd := &cobra.Command{
		Use: "drop [ID…]", Short: "Drop dead letters; their events are taken in by nobody",
		Example: `  deadman dead-letter drop 7 8
  deadman dead-letter drop --subject orders.test -y`,
	}
	meant.flags(cmd.Flags())
	yes := addYes(cmd.Flags())
	cmd.Args = meant.take
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := p.client()
		if err != nil {
			return err
		}
		done, err := p.dropLetters(cmd, c, meant, *yes)
		if err != nil {
			return err
		}
		if p.output == asJSON {
			return writeValue(p.out, done)
		}
		_, err = fmt.Fprintf(p.out, "dropped: %s\n", number(int(done.Dropped), "dead letter"))
		return err
	}
	return cmd
}

func (p *cli) dropLetters(cmd *cobra.Command, c *client, meant deadLetterSelection, yes bool) (done web.Dropped, err error) {
	for _, id := range meant.ids {
		if _, err := c.ask(cmd.Context(), http.MethodDelete, "/dead-letters/"+id, nil, nil, nil); err != nil {
			return done, err
		}
		done.Dropped++
	}
	if len(meant.ids) > 0 {
		return done, nil
	}
	if err := p.confirm(yes, "drop all dead letters that are meant?"); err != nil {
		return done, err
	}
	done, _, err = tell[web.Dropped](cmd.Context(), c, http.MethodDelete, "/dead-letters", meant.query(), nil)
	return done, err
}
