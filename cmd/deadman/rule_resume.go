package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"deadman/web"
)

// ruleResumeSelection selects the paused rules of a command.
type ruleResumeSelection struct {
	prefix, reason string
	all            bool
}

// some reports whether several rules are selected.
func (s *ruleResumeSelection) some() bool { return s.all || s.prefix+s.reason != "" }

// query returns the filter for the API.
func (s *ruleResumeSelection) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"prefix": s.prefix, "reason": s.reason} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if s.all {
		q.Set("all", "true")
	}
	return q
}

func newRuleResumeCmd(io *cli) *cobra.Command {
	var selection ruleResumeSelection
	cmd := newRulePauseCmd(io, "resume", "Resume a paused rule, or all paused rules of a prefix", "resumed: rule %s\n")
	cmd.Use = "resume [RULE]"
	cmd.Example = `  deadman rule resume order-unshipped
  deadman rule resume --prefix 'acme-*' --reason cost`
	flags := cmd.Flags()
	flags.StringVar(&selection.prefix, "prefix", "", "paused rules whose names have this prefix")
	flags.StringVar(&selection.reason, "reason", "", "paused rules by reason: cost (paused by deadman) or manual (by a user)")
	flags.BoolVar(&selection.all, "all", false, "all paused rules")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 || (len(args) == 1) == selection.some() {
			return usage("%s requires a RULE, or filters (--prefix, --reason), or --all", commandName(cmd))
		}
		return nil
	}
	resumeOne := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return resumeOne(cmd, args)
		}
		return resumeRules(io, cmd, selection)
	}
	return cmd
}

// resumeRules resumes the selection in as many requests as necessary.
func resumeRules(io *cli, cmd *cobra.Command, selection ruleResumeSelection) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	sum, query := web.Resumed{Rules: []string{}}, selection.query()
	for {
		one, _, err := call[web.Resumed](cmd.Context(), c, http.MethodPost, "/rules/resume", query, nil)
		sum.Resumed, sum.Rules = sum.Resumed+one.Resumed, append(sum.Rules, one.Rules...)
		if err != nil {
			return fmt.Errorf("after %s: %w", number(sum.Resumed, "resumed rule"), err)
		}
		if one.Next == "" {
			break
		}
		query.Set("after", one.Next)
	}
	if sum.Resumed == 0 {
		return io.report(sum, "no rule of the selection is paused\n")
	}
	return io.report(sum, "resumed: %s: %s\n", number(sum.Resumed, "rule"), sanitize(strings.Join(sum.Rules, ", ")))
}
