package server

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"deadman/internal/operatorfiles"
	"deadman/web"
)

// operatorFile is a configuration file, or the folder of rules, that a running node can reload.
type operatorFile struct {
	path string // empty: not configured
	// read applies the file, or returns an error and leaves the previous configuration in effect.
	read     func(context.Context) error
	isFolder bool // the folder of rules
}

// readAgain applies the file unless it is something else by now. A named pipe would hold up this reload and all later ones.
func (f operatorFile) readAgain(ctx context.Context) error {
	if !f.isFolder {
		if err := operatorfiles.CheckRegular(f.path); err != nil {
			return err
		}
	}
	return f.read(ctx)
}

// reloader reloads the operator's files.
type reloader struct {
	files  []operatorFile
	signal <-chan struct{} // Config.Reload
	log    *slog.Logger

	mu      sync.Mutex
	refused map[string]bool // by path, since its last reading
}

// Run reloads the files on each signal, until ctx ends.
func (r *reloader) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, more := <-r.signal:
			if !more {
				return nil
			}
		}
		r.reload(ctx)
	}
}

func (r *reloader) reload(ctx context.Context) {
	for _, f := range r.files {
		if f.path == "" {
			continue
		}
		err := f.readAgain(ctx)
		r.note(f.path, err != nil)
		if err != nil {
			r.log.Error("a file is refused; what was read before stays in force", "file", f.path, "err", err)
			continue
		}
		r.log.Info("a file was read again", "file", f.path)
	}
}

// note records whether a file was refused at its last reading.
func (r *reloader) note(path string, isRefused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !isRefused {
		delete(r.refused, path)
		return
	}
	if r.refused == nil {
		r.refused = make(map[string]bool)
	}
	r.refused[path] = true
}

// conditions returns the condition of the files, if any are configured.
func (r *reloader) conditions() []web.Condition {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.files, func(f operatorFile) bool { return f.path != "" }) {
		return nil
	}
	detail := "no file is refused"
	if len(r.refused) > 0 {
		detail = "refused: " + strings.Join(slices.Sorted(maps.Keys(r.refused)), ", ") + "; the contents read before stay in force. The log has the reasons; correct the files and send SIGHUP"
	}
	return []web.Condition{{Name: "files", OK: len(r.refused) == 0, Detail: detail}}
}
