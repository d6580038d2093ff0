package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/internal/calendars"
	"deadman/internal/replay"
	"deadman/rules/document"
)

// against reads the rules to compare with: those of files, or the requested ones with a version of one rule from the node
// in place of theirs.
func (v *replayRun) against(ctx context.Context, requested []document.Document, known calendars.Set) ([]document.Document, error) {
	if _, err := os.Stat(v.old); err == nil || v.old == standardInput {
		return v.documents([]string{v.old}, known)
	}
	name, number, isVersion := strings.Cut(v.old, "@")
	if !document.NamePattern.MatchString(name) {
		return nil, usage("--against: there is no file %s, and it is not the name of a rule; write old.yaml, order-unshipped or order-unshipped@3", clip(v.old, 80))
	}
	path := rulePath(name)
	if isVersion {
		version, err := strconv.ParseInt(number, 10, 32)
		if err != nil || version < 1 {
			return nil, usage("--against: %s is not a version; write a number from 1, such as %s@3", clip(number, 40), name)
		}
		path += "/versions/" + strconv.FormatInt(version, 10)
	}
	at := slices.IndexFunc(requested, func(d document.Document) bool { return d.Name == name })
	if at < 0 {
		return nil, usage("--against: the files of -f have no rule %s to compare with %s of the node", name, v.old)
	}
	c, err := v.io.client()
	if err != nil {
		return nil, err
	}
	raw, err := c.request(ctx, http.MethodGet, path, nil, nil, http.Header{"Accept": {"application/json"}})
	if err != nil {
		return nil, err
	}
	all := slices.Clone(requested)
	all[at] = document.Document{}
	return all, json.Unmarshal(raw, &all[at])
}

// compare begins the replay of the rules before the change.
func (v *replayRun) compare(ctx context.Context, from time.Time, requested []document.Document, known calendars.Set, answers *replay.Lookups) error {
	old, err := v.against(ctx, requested, known)
	if err != nil {
		return err
	}
	if v.before, err = replay.New(ctx, old, known, answers, from); err != nil {
		return err
	}
	v.compared = replay.NewComparison()
	v.before.Raise, v.replay.Raise = v.compared.Before, func(a alerts.Alert) error {
		return errors.Join(v.compared.After(a), v.output.alert(a))
	}
	for _, d := range slices.Concat(old, requested) {
		if !slices.Contains(v.names, d.Name) {
			v.names = append(v.names, d.Name)
		}
	}
	return nil
}
