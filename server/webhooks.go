package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"deadman/internal/operatorfiles"
	"deadman/internal/webhooks"
)

// hookFile is the operator's file of webhooks.
type hookFile struct {
	path    string // empty: no webhooks
	current atomic.Pointer[webhooks.Set]
}

// read reads the file and applies it.
func (h *hookFile) read(context.Context) error {
	known, err := readHooks(h.path)
	if err == nil {
		h.current.Store(&known)
	}
	return err
}

// hook returns the webhook with the name, or nil.
func (h *hookFile) hook(name string) *webhooks.Webhook { return (*h.current.Load())[name] }

// readHooks reads a webhooks file and the secret files it names; without a file it returns none. The error covers all
// invalid secrets.
func readHooks(file string) (webhooks.Set, error) {
	if file == "" {
		return nil, nil
	}
	data, err := operatorfiles.Read(file)
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
		secret, err := operatorfiles.Read(h.SecretFile)
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
