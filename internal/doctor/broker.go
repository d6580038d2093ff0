package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/checks/lookup"
	"deadman/internal/bus"
	"deadman/internal/sources"
)

const (
	maxFill   = 0.8            // share of a limit of a stream or an account
	minMaxAge = 24 * time.Hour // age at which a stream may drop events
)

// brokerInspection checks NATS through one connection.
type brokerInspection struct {
	*inspection
	nc *nats.Conn // nil: there is none
}

// broker checks the NATS servers, deadman's streams and those that rules read. An embedded server runs with its node only.
func broker(ctx context.Context, i *inspection) {
	b := brokerInspection{inspection: i}
	if i.NATSURL == "" {
		i.ok("broker", "embedded; it starts with the node")
	} else {
		conn, err := bus.Dial(bus.Options{URL: i.NATSURL, Identity: i.Identity(), Namespace: i.Namespace, Name: "deadman doctor", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			i.problem("broker", Failed, err.Error(), "correct DEADMAN_NATS_URL and its credentials, or start the servers")
		} else {
			defer conn.Close()
			b.nc = conn.Conn.NATS()
			b.servers(ctx)
		}
	}
	b.sources(ctx)
}

// servers checks the servers, the account and the streams.
func (i brokerInspection) servers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	rtt, err := i.nc.RTT()
	if err != nil {
		i.problem("broker", Unknown, err.Error(), "run deadman doctor again")
		return
	}
	where := "one server"
	if cluster := i.nc.ConnectedClusterName(); cluster != "" {
		where = fmt.Sprintf("cluster %s with %d known servers", cluster, max(len(i.nc.Servers()), 1))
	}
	i.ok("broker", "NATS %s, %s, round trip %s", i.nc.ConnectedServerVersion(), where, rtt.Round(10*time.Microsecond))
	if state, err := i.nc.TLSConnectionState(); err == nil && len(state.PeerCertificates) > 0 {
		i.validity("broker certificate", "the certificate of the broker", state.PeerCertificates[0].NotAfter)
	}
	js, err := jetstream.New(i.nc)
	if err != nil {
		i.problem("JetStream", Unknown, err.Error(), "run deadman doctor again")
		return
	}
	p := newProbe(i.nc)
	defer p.close()
	i.account(ctx, js, p)
	streams, err := i.streams(ctx, js, p)
	if err != nil {
		i.problem("streams", Unknown, "they cannot be listed: "+err.Error(), "see the broker permissions in this list, or run deadman doctor again")
	}
	permissionInspection{i, p}.permissions(streams, err == nil)
}

// streams inspects the streams. A user who lacks a permission gets no answer, so the permissions are tested first.
func (i brokerInspection) streams(ctx context.Context, js jetstream.JetStream, p *probe) (found []jetstream.StreamConfig, err error) {
	lacks, err := p.missing([]permission{{list: subscribe, line: i.Namespace.Inbox() + ".>"}, {list: publish, line: listStreams}})
	if err == nil && len(lacks) > 0 {
		return nil, fmt.Errorf("the user may not %s on %s", lacks[0].list, lacks[0].line)
	}
	sent := i.now()
	all := js.ListStreams(ctx)
	clocked := false
	for info := range all.Info() {
		if !clocked {
			clocked = true
			i.skew("broker clock", "the broker", sent, info.TimeStamp, i.now())
		}
		i.stream(info, i.nc.ConnectedClusterName() != "")
		found = append(found, info.Config)
	}
	return found, all.Err()
}

// account checks JetStream and the limits of the account.
func (i brokerInspection) account(ctx context.Context, js jetstream.JetStream, p *probe) {
	if granted, err := p.has(accountInfo); err == nil && !granted {
		i.ok("JetStream", "the limits of the account were not checked: the user may not publish on %s, which a node does not need", accountInfo)
		return
	}
	info, err := js.AccountInfo(ctx)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		i.problem("JetStream", Failed, err.Error(), "enable JetStream on the servers and for the account")
		return
	case err != nil:
		i.problem("JetStream", Unknown, "the account cannot be read: "+err.Error(), "permit the user to publish on $JS.API.INFO, or see nats account info")
		return
	}
	if limit := info.Limits.MaxStore; limit > 0 && float64(info.Store) > maxFill*float64(limit) {
		i.problem("JetStream", Warning, fmt.Sprintf("the account uses %s of %s of disk", humanize.IBytes(info.Store), humanize.IBytes(uint64(limit))),
			"raise the limit of the account, or lower those of streams")
		return
	}
	i.ok("JetStream", "%d streams, %s on disk", info.Streams, humanize.IBytes(info.Store))
}

// stream checks copies, fill and settings of a stream.
func (i brokerInspection) stream(info *jetstream.StreamInfo, clustered bool) {
	cfg := info.Config
	check := "stream " + cfg.Name
	found := len(i.findings)
	if c := info.Cluster; c != nil && clustered {
		if c.Leader == "" {
			i.problem(check, Failed, "it has no leader: nothing is read from it or stored in it", "start the missing servers")
		}
		for _, r := range c.Replicas {
			if r.Offline {
				i.problem(check, Warning, "its copy on "+r.Name+" is offline", "start the server, or move the copy with nats stream cluster peer-remove")
			}
		}
		if cfg.Replicas < 2 {
			i.problem(check, Warning, "it has one copy in a cluster: if its server stops, so do its events", "nats stream edit "+cfg.Name+" --replicas 3")
		}
	}
	if fill := float64(info.State.Bytes) / float64(max(cfg.MaxBytes, 1)); cfg.MaxBytes > 0 && fill > maxFill {
		happens := "its oldest messages are dropped when it is full, read or not"
		if cfg.Discard == jetstream.DiscardNew {
			happens = "it refuses messages when it is full"
		}
		i.problem(check, Warning, fmt.Sprintf("it is %.0f %% full; %s", 100*fill, happens), "raise max_bytes with nats stream edit "+cfg.Name)
	}
	if cfg.Name == i.Namespace.Stream(bus.AlertsStream) {
		if mark := cfg.Metadata[bus.DatabaseMark]; mark != "" && i.database != "" && mark != i.database {
			i.problem(check, Failed, fmt.Sprintf("it belongs to the database with the id %s, and this one has the id %s: a node refuses to start", mark, i.database),
				"set DEADMAN_NAMESPACE or use an account of its own; see docs/operations/nats.md")
		}
	} else {
		if risk := bus.LossRisk(cfg); risk != "" {
			i.problem(check, Warning, "it "+risk+", so single events may be lost before rules read them", "read its events from a stream without this setting")
		}
		if cfg.MaxAge > 0 && cfg.MaxAge < minMaxAge {
			i.problem(check, Warning, fmt.Sprintf("it keeps messages for %s: an outage of all nodes that is longer loses events", cfg.MaxAge), "raise max_age with nats stream edit "+cfg.Name)
		}
	}
	i.horizon(check, cfg)
	if len(i.findings) == found {
		i.ok(check, "%s messages, %d copies", humanize.Comma(int64(info.State.Msgs)), cfg.Replicas)
	}
}

// sources connects to each source, without a query.
func (i brokerInspection) sources(ctx context.Context) {
	if i.Sources == "" {
		return
	}
	known, err := sources.Load(i.Sources, i.Env)
	if err != nil {
		return // the finding about the file has it
	}
	for _, spec := range known {
		i.source(ctx, spec)
	}
}

func (i brokerInspection) source(ctx context.Context, spec sources.Spec) {
	check := "source " + spec.Name
	if spec.NATS != nil && i.nc == nil {
		i.problem(check, Unknown, "it answers over the node's connection to NATS, which is not there", "deadman source test "+spec.Name+" asks a running node")
		return
	}
	client, err := sources.Open(spec, func() *nats.Conn { return i.nc })
	if err != nil {
		i.problem(check, Failed, err.Error(), "correct the file of --sources")
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := client.Reach(ctx); err != nil {
		i.problem(check, Failed, err.Error(), "checks that query it are retried; correct the source or its entry")
		return
	}
	if c, ok := client.(lookup.Certified); ok && c.Certificate() != nil {
		i.validity(check, "the certificate of its service", c.Certificate().NotAfter)
	}
	if c, ok := client.(lookup.Cautious); ok && c.Caution() != "" {
		i.problem(check, Warning, strings.TrimSuffix(c.Caution(), "."), "let lookups use a user with fewer permissions")
		return
	}
	i.ok(check, "%s, reached", spec.Kind())
}
