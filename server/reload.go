package server

import "context"

// operatorFile is a configuration file that a running node can reload.
type operatorFile struct {
	path string // empty: not configured
	// read applies the file, or returns an error and leaves the previous configuration in effect.
	read func(context.Context) error
}

// operatorFiles returns the reloadable files.
func (n *node) operatorFiles() []operatorFile {
	return []operatorFile{{n.Config.Hooks, n.readHooks}, {n.Notify, n.reloadChannels}, {n.Login, n.readLogin}}
}

// reload reloads the files on each receive from Config.Reload, until ctx ends.
func (n *node) reload(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, more := <-n.Reload:
			if !more {
				return nil
			}
		}
		for _, f := range n.operatorFiles() {
			if f.path == "" {
				continue
			}
			if err := f.read(ctx); err != nil {
				n.log.Error("a file is refused; what was read before stays in force", "file", f.path, "err", err)
				continue
			}
			n.log.Info("a file was read again", "file", f.path)
		}
	}
}
