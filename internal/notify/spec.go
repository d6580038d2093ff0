package notify

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"deadman/internal/configfile"
)

// Spec is the specification of a channel, including its secrets.
type Spec struct {
	Name   string
	Kind   Kind
	URL    string
	Secret string

	URLs    []string          // of a cluster of Alertmanagers, in place of URL
	Headers map[string]string // of requests, by name; secret
	Resend  time.Duration     // interval at which an Alertmanager gets the open alerts again; 0: a minute

	NoAckLinks bool   // its messages have no links that acknowledge alerts
	AckButton  string // the webhook that receives presses of its buttons; empty: no buttons
}

// Kind is the kind of service behind a channel.
type Kind string

// The kinds of channels.
const (
	Slack        Kind = "slack"
	Email        Kind = "email"
	PagerDuty    Kind = "pagerduty"
	Shoutrrr     Kind = "shoutrrr" // any other service of that library
	Mattermost   Kind = "mattermost"
	Webhook      Kind = "webhook"
	Alertmanager Kind = "alertmanager" // Alertmanagers themselves

	AlertmanagerWebhook Kind = "alertmanager-webhook" // a receiver of their webhooks
)

var kinds = []Kind{Slack, Email, PagerDuty, Shoutrrr, Mattermost, Webhook, Alertmanager, AlertmanagerWebhook}

// schemes are the URL schemes of kinds that are a single service of shoutrrr.
var schemes = map[Kind]string{Slack: "slack", Email: "smtp", PagerDuty: "pagerduty"}

func choices() string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

// check returns the problem of a channel of a known kind, with a remedy; empty: none. It does not quote the URL, as a
// URL from a file is a secret.
func (s Spec) check(fromFile bool) string {
	if s.Kind == "" {
		return "kind is missing; it is one of " + choices()
	}
	for _, given := range s.addresses() {
		if problem := s.checkURL(given, fromFile); problem != "" {
			return problem
		}
	}
	switch {
	case s.AckButton != "" && !s.isChat():
		return "buttons need an incoming webhook of Slack or Mattermost; write kind: slack or kind: mattermost, and its https:// URL into the url_file"
	case s.AckButton != "" && configfile.CheckName(s.AckButton) != "":
		return "ack_button is no name of a webhook; name the one of the file of --hooks that receives the presses"
	case s.Secret != "" && s.Kind != Webhook:
		return "secret_file is for the kind webhook; leave it out"
	case s.Kind != Alertmanager && (s.URLs != nil || s.Resend != 0):
		return "urls and resend_interval are for the kind alertmanager; leave them out"
	case s.Headers != nil && !s.overHTTP():
		return "headers are for the kinds webhook, alertmanager and alertmanager-webhook; leave them out"
	}
	if _, err := Open(s, NewClient()); err != nil {
		return err.Error()
	}
	return ""
}

// checkURL returns the problem of a URL of the channel.
func (s Spec) checkURL(given string, fromFile bool) string {
	u, err := url.Parse(given)
	switch {
	case given == "" && s.overHTTP():
		return "there is no url; write url, or url_file with the name of a file that holds it"
	case given == "":
		return "there is no url_file; name a file that holds the URL, because there are secrets in it"
	case err != nil:
		return errUnreadable.Error()
	case !s.overHTTP() && !fromFile:
		return "a URL of this kind has secrets in it; write it into a file, and name that with url_file"
	case s.Kind == Alertmanager && (u.RawQuery != "" || u.Fragment != ""):
		return "the base URL of an Alertmanager has no query; write it as http://alertmanager.example.org:9093, or, for a receiver of Alertmanager's webhooks, kind: " + string(AlertmanagerWebhook)
	case s.Kind == Alertmanager && apiPath.MatchString(u.Path):
		return "the URL is the address of a request; write the base URL, such as http://alertmanager.example.org:9093, to which deadman appends api/v2/alerts"
	case !fromFile && (u.User != nil || u.RawQuery != ""):
		return "a URL with a user or a query may have secrets in it; write it into a file, and name that with url_file"
	case (s.overHTTP() || s.isChat()) && (u.Host == "" || u.Scheme != "https" && u.Scheme != "http"):
		return "the URL is no web address; write it in full, such as https://example.org/hook"
	case !s.isChat() && schemes[s.Kind] != "" && u.Scheme != schemes[s.Kind]:
		return fmt.Sprintf("the URL of the kind %s begins with %s://; for another service write its kind, or kind: shoutrrr", s.Kind, schemes[s.Kind])
	}
	return ""
}

// apiPath matches the path of an operation of Alertmanager.
var apiPath = regexp.MustCompile(`/api/v\d+(/\w*)?/?$`)

// addresses returns the URLs of the channel.
func (s Spec) addresses() []string {
	if s.URLs != nil {
		return s.URLs
	}
	return []string{s.URL}
}

func (s Spec) overHTTP() bool {
	return s.Kind == Webhook || s.Kind == Alertmanager || s.Kind == AlertmanagerWebhook
}

// isChat reports whether the channel is an incoming webhook of Slack or Mattermost, whose messages can have buttons.
func (s Spec) isChat() bool {
	return s.Kind == Mattermost || s.Kind == Slack && (strings.HasPrefix(s.URL, "https://") || strings.HasPrefix(s.URL, "http://"))
}

// reasonSize is the maximum stored length of an error, in bytes.
const reasonSize = 500

// reason returns an error's text without secrets, for display to all users: URLs are reduced to the host, unless it
// contains a secret.
func (s Spec) reason(err error) string {
	text := address.ReplaceAllStringFunc(err.Error(), func(found string) string {
		u, err := url.Parse(found)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" {
			scheme, _, _ := strings.Cut(found, "://")
			return scheme + "://…"
		}
		return u.Scheme + "://" + u.Host + "/…"
	})
	for _, secret := range s.secrets() {
		text = strings.ReplaceAll(text, secret, "…")
	}
	text = strings.TrimSpace(breaks.ReplaceAllString(text, " "))
	if len(text) > reasonSize {
		text = strings.ToValidUTF8(text[:reasonSize], "") + "…"
	}
	return text
}

// secrets returns the secret parts of a channel: all parts of its URLs that are long enough to be secrets, its signing
// secret, and the values of its headers.
func (s Spec) secrets() []string {
	parts := []string{s.Secret}
	for _, value := range s.Headers {
		parts = append(parts, value)
		parts = append(parts, strings.Fields(value)...) // such as the token after Bearer
	}
	for _, given := range s.addresses() {
		parts = append(append(parts, given), s.partsOf(given)...)
	}
	return slices.DeleteFunc(parts, func(p string) bool { return len(p) < 8 })
}

// partsOf returns the parts of a URL that may be secrets.
func (s Spec) partsOf(given string) []string {
	u, err := url.Parse(given)
	if err != nil {
		return nil
	}
	password, _ := u.User.Password()
	parts := []string{password, u.User.Username()}
	for _, p := range strings.FieldsFunc(u.Path, func(r rune) bool { return r == '/' || r == ':' }) {
		if p != string(Alertmanager) { // a usual path, and a word of errors
			parts = append(parts, p)
		}
	}
	if s.Kind != Email {
		for _, values := range u.Query() {
			parts = append(parts, values...)
		}
	}
	return parts
}
