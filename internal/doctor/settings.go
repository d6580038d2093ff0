package doctor

import (
	"fmt"

	"deadman/internal/calendars"
	"deadman/internal/logins"
	"deadman/internal/notify"
	"deadman/internal/operatorfiles"
	"deadman/internal/sources"
	"deadman/internal/webhooks"
	"deadman/rules"
)

// settings checks settings that stop a node or leave a failure unnoticed.
func settings(i *inspection) {
	if err := i.Validate(); err != nil {
		i.problem("settings", Failed, err.Error(), "correct the setting; deadman config shows where its value comes from")
		return
	}
	where := "SQLite and NATS in " + i.DataDir
	if i.DatabaseURL != "" {
		where = "Postgres and NATS"
	} else if i.NATSURL != "" {
		where = "SQLite in " + i.DataDir + ", and NATS"
	}
	i.ok("settings", "%s", where)
	if i.HeartbeatURL == "" && i.HeartbeatSubject == "" {
		i.problem("heartbeat", Warning, "no heartbeat is configured: if all nodes are down, nothing reports it",
			"set DEADMAN_HEARTBEAT_URL to a check of another service")
	} else {
		i.ok("heartbeat", "sent every %s while all shards are swept", i.HeartbeatEvery)
	}
	if i.Notify == "" {
		i.problem("notifications", Warning, "no channels file is configured: alerts reach NATS and the pages, and no person is notified",
			"set DEADMAN_NOTIFY, unless another program notifies people")
	}
}

// files parses the files that the settings name.
func files(i *inspection) {
	fileOf(i, "rules folder", i.Rules, func() (string, error) {
		files, err := rules.FilesIn(i.Rules)
		return fmt.Sprintf("%d files of rules in it and its subfolders", len(files)), err
	})
	fileOf(i, "calendars file", i.Calendars, func() (string, error) {
		data, err := operatorfiles.Read(i.Calendars)
		if err != nil {
			return "", err
		}
		known, err := calendars.Parse(data, i.Calendars)
		return fmt.Sprintf("%d calendars", len(known)), err
	})
	var hooks webhooks.Set
	fileOf(i, "webhooks file", i.Hooks, func() (string, error) {
		data, err := operatorfiles.Read(i.Hooks)
		if err != nil {
			return "", err
		}
		known, err := webhooks.Parse(data, i.Hooks)
		hooks = known
		return fmt.Sprintf("%d webhooks", len(known)), err
	})
	fileOf(i, "login file", i.Login, func() (string, error) {
		_, err := logins.Load(i.Login, logins.Options{Env: i.Env, Now: i.now})
		return "valid methods", err
	})
	fileOf(i, "channels file", i.Notify, func() (string, error) {
		known, err := notify.Load(i.Notify)
		if err == nil {
			err = known.CheckButtons(func(name string) bool { return hooks[name] != nil })
		}
		return fmt.Sprintf("%d channels and %d routes; deadman channel test sends a message", len(known.Channels), len(known.Routes)), err
	})
	fileOf(i, "sources file", i.Sources, func() (string, error) {
		known, err := sources.Load(i.Sources, i.Env)
		return fmt.Sprintf("%d sources", len(known)), err
	})
}

// fileOf adds a finding about a file that a setting names: the error, or what the file has.
func fileOf(i *inspection, check, path string, read func() (has string, err error)) {
	if path == "" {
		return
	}
	if has, err := read(); err != nil {
		i.problem(check, Failed, err.Error(), "correct the file; a node does not start with it")
	} else {
		i.ok(check, "%s has %s", path, has)
	}
}
