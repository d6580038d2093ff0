package main

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/prometheus/common/model"

	"deadman/server"
)

// setting is a setting of serve. Its name, such as data_dir, is its key in a file. The flag --data-dir and the
// variable DEADMAN_DATA_DIR derive from it.
type setting struct {
	name   string
	usage  string
	preset string // the default, in the format of the flag
	take   func(*serveConfig, string) error
}

func (s setting) flag() string     { return strings.ReplaceAll(s.name, "_", "-") }
func (s setting) variable() string { return envPrefix + strings.ToUpper(s.name) }

// serveConfig is the configuration of a node with its logging.
type serveConfig struct {
	server.Config
	level  slog.Level
	format string
}

// maxLimit is the largest value of a limit.
const maxLimit = 1_000_000

// settings lists all settings in display order.
var settings = []setting{
	{"data_dir", "folder of the embedded store and broker", "deadman-data", text(func(r *serveConfig) *string { return &r.DataDir })},
	{"database_url", "Postgres; empty: SQLite in the data folder", "", text(func(r *serveConfig) *string { return &r.DatabaseURL })},
	{"nats_url", "NATS servers with JetStream; empty: one in the process", "", text(func(r *serveConfig) *string { return &r.NATSURL })},
	{"nats_creds", "credentials file for the NATS servers", "", text(func(r *serveConfig) *string { return &r.NATSCreds })},
	{"nats_nkey", "file with an nkey seed for the NATS servers", "", text(func(r *serveConfig) *string { return &r.NATSNKey })},
	{"nats_token_file", "file with a token: for the NATS servers, or for clients of the one in the process", "", text(func(r *serveConfig) *string { return &r.NATSToken })},
	{"nats_ca", "file of certificates that vouch for the NATS servers", "", text(func(r *serveConfig) *string { return &r.NATSCA })},
	{"nats_cert", "file with the client certificate for the NATS servers", "", text(func(r *serveConfig) *string { return &r.NATSCert })},
	{"nats_key", "file with the private key of the client certificate", "", text(func(r *serveConfig) *string { return &r.NATSKey })},
	{"http_addr", "where HTTP is served; a taken default moves, port 0 picks a free one", server.DefaultHTTPAddr, address(func(r *serveConfig) *string { return &r.HTTPAddr })},
	{"nats_addr", "where the embedded NATS server listens", server.DefaultNATSAddr, address(func(r *serveConfig) *string { return &r.NATSAddr })},
	{"rules", "folder of rule files, applied at start", "", text(func(r *serveConfig) *string { return &r.Rules })},
	{"calendars", "file of calendars that rules may name", "", text(func(r *serveConfig) *string { return &r.Calendars })},
	{"sources", "file of databases and services that rules may look up in", "", text(func(r *serveConfig) *string { return &r.Sources })},
	{"hooks", "file of webhooks of others that are taken in", "", text(func(r *serveConfig) *string { return &r.Hooks })},
	{"login", "file of how people log in without a token: by a trusted proxy or an OpenID provider", "", text(func(r *serveConfig) *string { return &r.Login })},
	{"notify", "file of channels and routes that tell people; empty: nobody is told", "", text(func(r *serveConfig) *string { return &r.Notify })},
	{heartbeatURL, "web address that is told while all shards are swept; empty: none", "", link(func(r *serveConfig) *string { return &r.HeartbeatURL })},
	{"heartbeat_subject", "NATS subject that is told so; empty: none", "", text(func(r *serveConfig) *string { return &r.HeartbeatSubject })},
	{"heartbeat_every", "how often it is told, from 1s", "1m", span(func(r *serveConfig) *time.Duration { return &r.HeartbeatEvery })},
	{"insecure", "answer everybody without a token, also beyond loopback, over HTTP and NATS", "false", yesNo(func(r *serveConfig) *bool { return &r.Insecure })},
	{"public_url", "what links in alerts begin with", "", link(func(r *serveConfig) *string { return &r.PublicURL })},
	{"trusted_proxies", "proxies whose X-Forwarded-For names the client: networks or addresses, with commas", "", networks(func(r *serveConfig) *[]netip.Prefix { return &r.TrustedProxies })},
	{"token_rate", "requests a second of one token; twice as many at once", "1000", count(func(r *serveConfig) *int { return &r.TokenRate }, maxLimit)},
	{"connections", "HTTP connections at once", "8192", count(func(r *serveConfig) *int { return &r.Connections }, maxLimit)},
	{"client_connections", "HTTP connections of one address at once", "1024", count(func(r *serveConfig) *int { return &r.ClientConnections }, maxLimit)},
	{"alerts_bytes", "most that the stream of alerts holds; counts when it is created", "1GiB", size(func(r *serveConfig) *int64 { return &r.AlertsBytes })},
	{"events_bytes", "most that the stream of events holds, its oldest go beyond; counts when it is created", "4GiB", size(func(r *serveConfig) *int64 { return &r.EventsBytes })},
	{"keep_history", "how long ended jobs are kept", "90d", span(func(r *serveConfig) *time.Duration { return &r.KeepHistory })},
	{"keep_alerts", "how long alerts are kept", "30d", span(func(r *serveConfig) *time.Duration { return &r.KeepAlerts })},
	{"keep_dead_letters", "how long dead letters are kept", "7d", span(func(r *serveConfig) *time.Duration { return &r.KeepDeadLetters })},
	{"lease", "how long a shard is held without renewal", "15s", span(func(r *serveConfig) *time.Duration { return &r.Lease })},
	{"workers", "checks run at once", "64", count(func(r *serveConfig) *int { return &r.Workers }, 4096)},
	{"drain", "how long a stopping node may take", "10s", span(func(r *serveConfig) *time.Duration { return &r.Drain })},
	{"shards", "how many shards; counts when the database is created", "16", count(func(r *serveConfig) *int { return &r.Shards }, 1024)},
	{"log_level", "debug, info, warn or error", "info", func(r *serveConfig, v string) error { return r.level.UnmarshalText([]byte(v)) }},
	{"log_format", "auto, text or json", "auto", oneOf(func(r *serveConfig) *string { return &r.format }, logAuto, logText, logJSON)},
}

func text(of func(*serveConfig) *string) func(*serveConfig, string) error {
	return func(r *serveConfig, v string) error {
		*of(r) = v
		return nil
	}
}

func address(of func(*serveConfig) *string) func(*serveConfig, string) error {
	return func(r *serveConfig, v string) error {
		if _, _, err := net.SplitHostPort(v); err != nil {
			return fmt.Errorf("no address; write host:port, such as 127.0.0.1:8080 or :8080")
		}
		*of(r) = v
		return nil
	}
}

func link(of func(*serveConfig) *string) func(*serveConfig, string) error {
	return func(r *serveConfig, v string) error {
		u, err := url.Parse(v)
		if v != "" && (err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https")) {
			return fmt.Errorf("no web address; write it in full, such as https://deadman.example.org")
		}
		*of(r) = v
		return nil
	}
}

func span(of func(*serveConfig) *time.Duration) func(*serveConfig, string) error {
	return func(r *serveConfig, v string) error {
		d, err := model.ParseDuration(v)
		if err != nil || d <= 0 {
			return fmt.Errorf("no time over 0 with a unit; write it as 90d, 1h30m or 15s")
		}
		*of(r) = time.Duration(d)
		return nil
	}
}

// leastSize is the smallest size of a stream, enough for a few alerts with large bodies.
const leastSize = 1 << 20

func size(of func(*serveConfig) *int64) func(*serveConfig, string) error {
	return func(r *serveConfig, v string) error {
		n, err := humanize.ParseBytes(v)
		if err != nil || n < leastSize || n > math.MaxInt64 {
			return fmt.Errorf("no size from 1MiB; write it as 512MiB or 10GiB")
		}
		*of(r) = int64(n)
		return nil
	}
}

func count(of func(*serveConfig) *int, most int) func(*serveConfig, string) error {
	return func(r *serveConfig, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > most {
			return fmt.Errorf("no whole number from 1 to %d", most)
		}
		*of(r) = n
		return nil
	}
}

// networks parses a list such as 10.0.0.0/8, 192.0.2.7. It refuses a network of all addresses, because clients could
// then forge their addresses.
func networks(of func(*serveConfig) *[]netip.Prefix) func(*serveConfig, string) error {
	return func(r *serveConfig, v string) error {
		var all []netip.Prefix
		for _, part := range strings.FieldsFunc(v, func(c rune) bool { return c == ',' || c == ' ' }) {
			network, err := netip.ParsePrefix(part)
			if at, alone := netip.ParseAddr(part); alone == nil {
				network, err = at.Unmap().WithZone("").Prefix(at.Unmap().BitLen())
			}
			switch {
			case err != nil:
				return fmt.Errorf("%q is no network; write networks or addresses with commas between, such as 10.0.0.0/8,192.0.2.7", part)
			case network.Bits() == 0:
				return fmt.Errorf("%s is every address, and each client could name another as its own; name the proxies alone", network)
			}
			all = append(all, network.Masked())
		}
		*of(r) = all
		return nil
	}
}

func yesNo(of func(*serveConfig) *bool) func(*serveConfig, string) error {
	return func(r *serveConfig, v string) error {
		switch v {
		case "true", "false":
			*of(r) = v == "true"
			return nil
		}
		return fmt.Errorf("neither true nor false")
	}
}

func oneOf(of func(*serveConfig) *string, words ...string) func(*serveConfig, string) error {
	return func(r *serveConfig, v string) error {
		for _, w := range words {
			if v == w {
				*of(r) = v
				return nil
			}
		}
		return fmt.Errorf("not one of %s", strings.Join(words, ", "))
	}
}
