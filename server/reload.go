package server

import "context"

// operatorFile is a file of the operator that a running node reads again.
type operatorFile struct {
	path string // empty: there is none
	// read puts what the file says in force, or returns what is wrong with it; then what was in
	// force before stays.
	read func(context.Context) error
}

// operatorFiles are those that are read again together.
func (n *node) operatorFiles() []operatorFile {
	return []operatorFile{{n.Config.Hooks, n.readHooks}, {n.Notify, n.reloadChannels}, {n.Login, n.readLogin}}
}

// reload reads the operator's files again each time that it is told to, until ctx ends.
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
