package subjects

import (
	"fmt"
	"regexp"
	"strings"
)

// The tokens that begin the subjects and the names of the streams of a deployment without a namespace.
const (
	subjectRoot = "deadman"
	streamRoot  = "DEADMAN"
)

// Namespace separates deployments that share an account of NATS servers. In the namespace staging, deadman.alerts.> is
// deadman-staging.alerts.>, and the stream DEADMAN_ALERTS is DEADMAN_STAGING_ALERTS. The empty namespace changes nothing.
type Namespace string

// maxNamespaceLen bounds a namespace, in bytes.
const maxNamespaceLen = 32

var namespaces = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// ParseNamespace checks the form of a namespace.
func ParseNamespace(text string) (Namespace, error) {
	if text != "" && (len(text) > maxNamespaceLen || !namespaces.MatchString(text)) {
		return "", fmt.Errorf("not a namespace; write up to %d lower-case letters and digits, with single hyphens between, such as staging", maxNamespaceLen)
	}
	return Namespace(text), nil
}

// Root returns the first token of the namespace's subjects.
func (n Namespace) Root() string {
	if n == "" {
		return subjectRoot
	}
	return subjectRoot + "-" + string(n)
}

// Inbox returns the prefix of the subjects of answers. With its own prefix, deadman's user needs no permission to receive
// answers to other clients.
func (n Namespace) Inbox() string { return "_INBOX." + n.Root() }

// Subject returns the subject in the namespace, of one that begins with "deadman.".
func (n Namespace) Subject(s string) string {
	return n.Root() + strings.TrimPrefix(s, subjectRoot)
}

// Stream returns the name of a stream in the namespace, of one that begins with "DEADMAN_".
func (n Namespace) Stream(name string) string {
	if n == "" {
		return name
	}
	return streamRoot + "_" + strings.ToUpper(string(n)) + strings.TrimPrefix(name, streamRoot)
}
