package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"deadman/internal/webhooks"
)

// readHooks reads the webhooks file and applies it.
func (n *node) readHooks(context.Context) error {
	known, err := readHooks(n.Config.Hooks)
	if err == nil {
		n.hooks.Store(&known)
	}
	return err
}

// hookOf returns the webhook with the name, or nil.
func (n *node) hookOf(name string) *webhooks.Webhook { return (*n.hooks.Load())[name] }

// readHooks reads a webhooks file and the secret files it names; without a file it returns none. The error covers all
// invalid secrets.
func readHooks(file string) (webhooks.Set, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("hooks: %w (--hooks names a file)", err)
	}
	known, err := webhooks.Parse(data, file)
	if err != nil {
		return nil, fmt.Errorf("hooks: %w", err)
	}
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(known)) {
		h := known[name]
		if h.SecretFile == "" {
			continue
		}
		secret, err := os.ReadFile(h.SecretFile)
		if err == nil {
			err = h.LoadSecrets(secret)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("hooks: %w", err))
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return known, nil
}
