package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/invopop/jsonschema"
	"github.com/prometheus/common/model"

	"deadman/internal/bus"
	"deadman/internal/configfile"
	"deadman/internal/store"
	"deadman/internal/subjects"
	"deadman/server"
)

// setting is a setting of serve. Its name, such as data_dir, is its key in a file. The flag --data-dir and the
// variable DEADMAN_DATA_DIR derive from it.
type setting struct {
	name   string
	kind   string // type of the value in the help
	usage  string
	preset string // the default, in the format of the flag
	settingForm
}

// settingForm reads the text of a setting, and describes it for the schema of settings files.
type settingForm struct {
	set    func(*serveConfig, string) error
	schema *jsonschema.Schema
}

func (s setting) flag() string     { return strings.ReplaceAll(s.name, "_", "-") }
func (s setting) variable() string { return envPrefix + strings.ToUpper(s.name) }

// serveConfig is the configuration of a node with its logging.
type serveConfig struct {
	server.Config
	level  slog.Level
	format string
}

// checkAddresses refuses addresses of the database and the broker that stop each start.
func (c serveConfig) checkAddresses() error {
	if c.DatabaseURL != "" {
		if _, err := store.Address(envPrefix+"DATABASE_URL", c.DatabaseURL); err != nil {
			return err
		}
	}
	return bus.CheckURL(c.NATSURL)
}

// check refuses settings that stop each start, before a connection to the database or the broker.
func (c serveConfig) check() error {
	if err := cmp.Or(c.checkAddresses(), c.WithDefaults().Validate()); err != nil || c.Rules == "" {
		return err
	}
	if _, err := os.Stat(c.Rules); err != nil {
		return fmt.Errorf("%sRULES: %w", envPrefix, err)
	}
	return nil
}

// maxLimit is the largest value of a limit.
const maxLimit = 1_000_000

// Units of durations, as model.ParseDuration has them.
const (
	day  = 24 * time.Hour
	year = 365 * day
)

// settings lists all settings in display order.
var settings = []setting{
	{"data_dir", "dir", "folder of the embedded database and NATS server", "deadman-data", text(func(r *serveConfig) *string { return &r.DataDir })},
	{"database_url", "url", "Postgres URL (default: SQLite in the data folder)", "", text(func(r *serveConfig) *string { return &r.DatabaseURL })},
	{"nats_url", "urls", "URLs of NATS servers with JetStream, comma-separated (default: an embedded server)", "", text(func(r *serveConfig) *string { return &r.NATSURL })},
	{"nats_creds", "file", "credentials file for the NATS servers (default: none)", "", text(func(r *serveConfig) *string { return &r.NATSCreds })},
	{"nats_nkey", "file", "nkey seed file for the NATS servers (default: none)", "", text(func(r *serveConfig) *string { return &r.NATSNKey })},
	{"nats_token_file", "file", "token file for the NATS servers, or for clients of the embedded server (default: none)", "", text(func(r *serveConfig) *string { return &r.NATSToken })},
	{"nats_ca", "file", "CA certificates file for the NATS servers (PEM) (default: none)", "", text(func(r *serveConfig) *string { return &r.NATSCA })},
	{"nats_cert", "file", "client certificate file for the NATS servers (PEM) (default: none)", "", text(func(r *serveConfig) *string { return &r.NATSCert })},
	{"nats_key", "file", "private key file of the client certificate (PEM) (default: none)", "", text(func(r *serveConfig) *string { return &r.NATSKey })},
	{"namespace", "name", "name of this deployment among several on the NATS servers, such as staging (default: none)", "", named(func(r *serveConfig) *subjects.Namespace { return &r.Namespace })},
	{"http_addr", "address", "listen address of HTTP; port 0 chooses a free port", server.DefaultHTTPAddr, address(func(r *serveConfig) *string { return &r.HTTPAddr })},
	{"nats_addr", "address", "listen address of the embedded NATS server", server.DefaultNATSAddr, address(func(r *serveConfig) *string { return &r.NATSAddr })},
	{"rules", "dir", "folder of rule files, applied at startup and on SIGHUP (default: none)", "", text(func(r *serveConfig) *string { return &r.Rules })},
	{"calendars", "file", "calendars file (default: none)", "", text(func(r *serveConfig) *string { return &r.Calendars })},
	{"sources", "file", "sources file: databases and services for lookups (default: none)", "", text(func(r *serveConfig) *string { return &r.Sources })},
	{"hooks", "file", "incoming webhooks file (default: none)", "", text(func(r *serveConfig) *string { return &r.Hooks })},
	{"login", "file", "logins file: login by a trusted proxy or an OpenID provider (default: none)", "", text(func(r *serveConfig) *string { return &r.Login })},
	{"notify", "file", "notification channels and routes file (default: no notifications)", "", text(func(r *serveConfig) *string { return &r.Notify })},
	{heartbeatURL, "url", "URL to send a heartbeat to while all shards are swept (default: none)", "", link(func(r *serveConfig) *string { return &r.HeartbeatURL })},
	{"heartbeat_subject", "subject", "NATS subject to send the heartbeat to (default: none)", "", text(func(r *serveConfig) *string { return &r.HeartbeatSubject })},
	{"heartbeat_every", "duration", "interval of the heartbeat, 1s to 1d", "1m", span(func(r *serveConfig) *time.Duration { return &r.HeartbeatEvery }, time.Second, day)},
	{"otlp_endpoint", "url", "base URL of an OpenTelemetry collector that receives traces over OTLP/HTTP (default: none)", "", link(func(r *serveConfig) *string { return &r.OTLPEndpoint })},
	{"insecure", "bool", "require no tokens over HTTP and NATS, even on non-loopback addresses (default: false)", "false", yesNo(func(r *serveConfig) *bool { return &r.Insecure })},
	{"public_url", "url", "base URL of links in alerts, and address of the node for users (default: none)", "", link(func(r *serveConfig) *string { return &r.PublicURL })},
	{"trusted_proxies", "networks", "proxies whose X-Forwarded-For header is trusted: networks or addresses, comma-separated (default: none)", "", networks(func(r *serveConfig) *[]netip.Prefix { return &r.TrustedProxies })},
	{"token_rate", "number", "requests per second per token, 1 to 1000000; bursts of twice as many", "1000", count(func(r *serveConfig) *int { return &r.TokenRate }, maxLimit)},
	{"connections", "number", "maximum concurrent HTTP connections, 1 to 1000000", "8192", count(func(r *serveConfig) *int { return &r.Connections }, maxLimit)},
	{"client_connections", "number", "maximum concurrent HTTP connections per client address, 1 to 1000000", "1024", count(func(r *serveConfig) *int { return &r.ClientConnections }, maxLimit)},
	{"alerts_bytes", "size", "maximum size of the stream DEADMAN_ALERTS, at least 1MiB; applied when the stream is created", "1GiB", size(func(r *serveConfig) *int64 { return &r.AlertsBytes })},
	{"events_bytes", "size", "maximum size of the stream DEADMAN_EVENTS, at least 1MiB, dropping the oldest events; applied when the stream is created", "4GiB", size(func(r *serveConfig) *int64 { return &r.EventsBytes })},
	{"keep_history", "duration", "retention of ended jobs, 1h to 100y", "90d", span(func(r *serveConfig) *time.Duration { return &r.KeepHistory }, time.Hour, 100*year)},
	{"keep_alerts", "duration", "retention of alerts, 1h to 100y", "30d", span(func(r *serveConfig) *time.Duration { return &r.KeepAlerts }, time.Hour, 100*year)},
	{"keep_dead_letters", "duration", "retention of dead letters, 1h to 100y", "7d", span(func(r *serveConfig) *time.Duration { return &r.KeepDeadLetters }, time.Hour, 100*year)},
	{"dead_letter_alert", "number", "number of dead letters that raises an alert, 1 to 1000000; open until it is closed", "100", count(func(r *serveConfig) *int { return &r.DeadLetterAlert }, maxLimit)},
	{"lease", "duration", "lease duration of a shard without renewal, 1s to 10m", "15s", span(func(r *serveConfig) *time.Duration { return &r.Lease }, time.Second, 10*time.Minute)},
	{"workers", "number", "maximum concurrent checks, 1 to 4096", "64", count(func(r *serveConfig) *int { return &r.Workers }, 4096)},
	{"drain", "duration", "shutdown timeout, 1s to 10m", "10s", span(func(r *serveConfig) *time.Duration { return &r.Drain }, time.Second, 10*time.Minute)},
	{"shards", "number", "number of shards, 1 to 1024; applied when the database is created", "16", count(func(r *serveConfig) *int { return &r.Shards }, 1024)},
	{"log_level", "level", "log level: debug, info, warn or error", "info", level()},
	{"log_format", "format", "log format: auto, text or json", "auto", oneOf(func(r *serveConfig) *string { return &r.format }, logAuto, logText, logJSON)},
}

func text(of func(*serveConfig) *string) settingForm {
	return settingForm{func(r *serveConfig, v string) error {
		*of(r) = v
		return nil
	}, configfile.RawTextForm()}
}

func named(of func(*serveConfig) *subjects.Namespace) settingForm {
	return settingForm{func(r *serveConfig, v string) (err error) {
		*of(r), err = subjects.ParseNamespace(v)
		return err
	}, configfile.RawTextForm()}
}

func address(of func(*serveConfig) *string) settingForm {
	return settingForm{func(r *serveConfig, v string) error {
		if _, _, err := net.SplitHostPort(v); err != nil {
			return fmt.Errorf("not an address; the format is host:port, such as 127.0.0.1:8080 or :8080")
		}
		*of(r) = v
		return nil
	}, configfile.PatternForm(`:[0-9]*$`)}
}

func link(of func(*serveConfig) *string) settingForm {
	return settingForm{func(r *serveConfig, v string) error {
		u, err := url.Parse(v)
		if v != "" && (err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https")) {
			return fmt.Errorf("not a URL; write it in full, such as https://deadman.example.org")
		}
		*of(r) = v
		return nil
	}, configfile.PatternForm(`^(https?://.+)?$`)}
}

func span(of func(*serveConfig) *time.Duration, least, most time.Duration) settingForm {
	return settingForm{func(r *serveConfig, v string) error {
		d, err := model.ParseDuration(v)
		if err != nil {
			return fmt.Errorf("not a duration with a unit; such as 90d, 1h30m or 15s")
		}
		if time.Duration(d) < least || time.Duration(d) > most {
			return fmt.Errorf("not from %s to %s", model.Duration(least), model.Duration(most))
		}
		*of(r) = time.Duration(d)
		return nil
	}, configfile.PatternForm(configfile.DurationPattern)}
}

// leastSize is the smallest size of a stream, enough for a few alerts with large bodies.
const leastSize = 1 << 20

func size(of func(*serveConfig) *int64) settingForm {
	return settingForm{func(r *serveConfig, v string) error {
		n, err := humanize.ParseBytes(v)
		if err != nil || n < leastSize || n > math.MaxInt64 {
			return fmt.Errorf("not a size of at least 1MiB; such as 512MiB or 10GiB")
		}
		*of(r) = int64(n)
		return nil
	}, configfile.PatternForm(`^ *[0-9.,]+ *[A-Za-z]* *$`)}
}

func count(of func(*serveConfig) *int, limit int) settingForm {
	return settingForm{func(r *serveConfig, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > limit {
			return fmt.Errorf("not a whole number from 1 to %d", limit)
		}
		*of(r) = n
		return nil
	}, orAsText(configfile.NumberForm(1, limit), `^[0-9]+$`)}
}

// networks parses a list such as 10.0.0.0/8, 192.0.2.7. It refuses a network of all addresses, because clients could
// then forge their addresses.
func networks(of func(*serveConfig) *[]netip.Prefix) settingForm {
	return settingForm{func(r *serveConfig, v string) error {
		var all []netip.Prefix
		for _, part := range strings.FieldsFunc(v, func(c rune) bool { return c == ',' || c == ' ' }) {
			network, err := netip.ParsePrefix(part)
			if at, alone := netip.ParseAddr(part); alone == nil {
				network, err = at.Unmap().WithZone("").Prefix(at.Unmap().BitLen())
			}
			switch {
			case err != nil:
				return fmt.Errorf("%q is not a network or address; the format is 10.0.0.0/8,192.0.2.7", part)
			case network.Bits() == 0:
				return fmt.Errorf("%s contains all addresses, so every client could forge its address; list only the proxies", network)
			}
			all = append(all, network.Masked())
		}
		*of(r) = all
		return nil
	}, configfile.RawTextForm()}
}

func yesNo(of func(*serveConfig) *bool) settingForm {
	return settingForm{func(r *serveConfig, v string) error {
		switch v {
		case "true", "false":
			*of(r) = v == "true"
			return nil
		}
		return fmt.Errorf("not true or false")
	}, orAsText(configfile.BoolForm(), `^(true|false)$`)}
}

func oneOf(of func(*serveConfig) *string, words ...string) settingForm {
	return settingForm{func(r *serveConfig, v string) error {
		for _, w := range words {
			if v == w {
				*of(r) = v
				return nil
			}
		}
		return fmt.Errorf("not one of %s", strings.Join(words, ", "))
	}, configfile.WordForm(words...)}
}

func level() settingForm {
	return settingForm{
		func(r *serveConfig, v string) error { return r.level.UnmarshalText([]byte(v)) },
		configfile.PatternForm(`^([Dd][Ee][Bb][Uu][Gg]|[Ii][Nn][Ff][Oo]|[Ww][Aa][Rr][Nn]|[Ee][Rr][Rr][Oo][Rr])([+-][0-9]+)?$`),
	}
}
