package server

import (
	"context"
	"log/slog"
)

// operatorFile is a configuration file that a running node can reload.
type operatorFile struct {
	path string // empty: not configured
	// read applies the file, or returns an error and leaves the previous configuration in effect.
	read func(context.Context) error
}

// reloader reloads the operator's files.
type reloader struct {
	files  []operatorFile
	signal <-chan struct{} // Config.Reload
	log    *slog.Logger
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
		for _, f := range r.files {
			if f.path == "" {
				continue
			}
			if err := f.read(ctx); err != nil {
				r.log.Error("a file is refused; what was read before stays in force", "file", f.path, "err", err)
				continue
			}
			r.log.Info("a file was read again", "file", f.path)
		}
	}
}
