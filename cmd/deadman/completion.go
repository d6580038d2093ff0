package main

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"deadman/web"
)

// completionTime bounds the wait after a press of the tab key.
const completionTime = 500 * time.Millisecond

// ruleEndings are the extensions of rule files.
var ruleEndings = []string{"yaml", "yml", "json"}

// complete registers the completion of a flag's value.
func complete(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, by); err != nil {
		panic(err) // the flag is missing or has a completion already, and every run would fail
	}
}

func completeWords(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// completeFiles completes file names with these extensions, or all file names if none are given.
func completeFiles(endings ...string) cobra.CompletionFunc {
	if len(endings) == 0 {
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	}
	return cobra.FixedCompletions(endings, cobra.ShellCompDirectiveFilterFileExt)
}

// settingValues maps settings to the completions of their values.
var settingValues = map[string]cobra.CompletionFunc{
	"data_dir": completeFolders, "rules": completeFolders,
	"calendars": completeFiles("yaml", "yml"), "notify": completeFiles("yaml", "yml"), "sources": completeFiles("yaml", "yml"), "nats_creds": completeFiles(),
	"nats_nkey": completeFiles(), "nats_token_file": completeFiles(), "nats_ca": completeFiles(), "nats_cert": completeFiles(), "nats_key": completeFiles(),
	"insecure": completeWords("true", "false"), "log_level": completeWords("debug", "info", "warn", "error"),
	"log_format": completeWords(logAuto, logText, logJSON),
}

var completeFolders = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)

// addSettingsTo adds a flag for every setting to a command.
func addSettingsTo(cmd *cobra.Command) {
	addSettings(cmd.Flags())
	complete(cmd, configFlag, completeFiles("yaml", "yml"))
	for _, s := range settings {
		if by, ok := settingValues[s.name]; ok {
			complete(cmd, s.flag(), by)
		}
	}
}

// completeRule completes the first argument of a command with rule names from the node. If the node does not answer,
// it offers none.
func completeRule(io *cli) cobra.CompletionFunc {
	return completeNames(io, "/rules", func(r web.Rule) cobra.Completion {
		description, _, _ := strings.Cut(r.Description, "\n")
		return cobra.CompletionWithDesc(sanitize(r.Name), sanitize(description))
	})
}

// completeNames completes the first argument by a list of the node that takes a prefix.
func completeNames[T any](io *cli, path string, completion func(T) cobra.Completion) cobra.CompletionFunc {
	const none = cobra.ShellCompDirectiveNoFileComp
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, none
		}
		c, err := io.client()
		if err != nil {
			return nil, none
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), completionTime)
		defer cancel()
		page, _, err := get[web.Page[T]](ctx, c, path, url.Values{"limit": {"500"}, "prefix": {prefix}})
		if err != nil {
			return nil, none
		}
		var names []cobra.Completion
		for _, item := range page.Items {
			names = append(names, completion(item))
		}
		return names, none
	}
}
