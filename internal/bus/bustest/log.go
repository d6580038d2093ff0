package bustest

import (
	"strings"
	"sync"
)

// Log collects what is logged, for a test to read. It is safe for concurrent use.
type Log struct {
	mu   sync.Mutex
	said strings.Builder
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.String()
}
