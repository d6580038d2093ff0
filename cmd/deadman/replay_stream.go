package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"deadman/internal/bus"
	"deadman/internal/events"
	"deadman/internal/replay"
	"deadman/internal/subjects"
)

// streamInput is a stream as the input of a replay.
type streamInput struct {
	name string
	set  map[string]*string // settings of NATS, by name
	info events.Info        // at the start

	openedAt time.Time // before info was read; zero: there is no stream
}

// natsSettings are the settings of the connection to NATS, by the names of a node's settings.
var natsSettings = []string{"nats_url", "nats_creds", "nats_nkey", "nats_token_file", "nats_ca", "nats_cert", "nats_key", "namespace"}

// addFlags adds a flag for each setting of NATS.
func (s *streamInput) addFlags(flags *pflag.FlagSet) {
	s.set = make(map[string]*string)
	for _, name := range natsSettings {
		for _, known := range settings {
			if known.name == name {
				s.set[name] = new(string)
				usage, _, _ := strings.Cut(known.usage, " (default")
				textFlagVar(flags, s.set[name], known.flag(), known.kind, "", usage+", for --stream (default: "+known.variable()+")")
			}
		}
	}
}

// options returns the options of the connection: of the flags, else of the variables.
func (s *streamInput) options(io *cli) (bus.Options, error) {
	value := func(name string) string {
		if *s.set[name] != "" {
			return *s.set[name]
		}
		return io.getenv(envPrefix + strings.ToUpper(name))
	}
	namespace, err := subjects.ParseNamespace(value("namespace"))
	if err != nil {
		return bus.Options{}, usage("--namespace: %v", err)
	}
	o := bus.Options{
		URL: value("nats_url"), Namespace: namespace, Name: "deadman replay", Log: slog.New(slog.DiscardHandler),
		Identity: bus.Identity{
			Creds: value("nats_creds"), NKey: value("nats_nkey"), Token: value("nats_token_file"),
			CA: value("nats_ca"), Cert: value("nats_cert"), Key: value("nats_key"),
		},
	}
	if o.URL == "" {
		return o, usage("--stream requires a NATS server; name it with --nats-url or DEADMAN_NATS_URL, such as nats://127.0.0.1:4222")
	}
	return o, nil
}

// open opens the messages of a range, up to the last message of now. The caller calls done.
func (s *streamInput) open(ctx context.Context, io *cli, from, to time.Time) (messages replay.Reader, done func(), err error) {
	o, err := s.options(io)
	if err != nil {
		return nil, nil, err
	}
	b, err := bus.Dial(o)
	if err != nil {
		return nil, nil, err
	}
	s.openedAt = io.now()
	s.info, err = b.Streams.InfoSince(ctx, s.name, from)
	switch {
	case errors.Is(err, events.ErrGone):
		err = usage("there is no stream %s that the user can read; list the streams with `nats stream ls`", s.name)
	case err == nil && (s.info.LastSeq < s.info.FirstSeq || s.info.LastAt.Before(from) || !to.IsZero() && s.info.FirstAt.After(to)):
		err = s.noneWithin(io, from, to)
	}
	if err != nil {
		b.Close()
		return nil, nil, err
	}
	if lack := s.info.Lack("Stream "+s.name, from); lack != "" {
		fmt.Fprintln(io.err, "warning: "+sanitize(lack))
	}
	stored := replay.NewStream(b.Streams.Replay(ctx, s.name, nil, from, s.info.LastSeq))
	return stored, func() {
		stored.Close()
		b.Close()
	}, nil
}

// noneWithin returns the error of a range without messages.
func (s *streamInput) noneWithin(io *cli, from, to time.Time) error {
	within := ""
	if !from.IsZero() {
		within += " since " + io.exact(from)
	}
	if !to.IsZero() {
		within += " until " + io.exact(to)
	}
	if s.info.LastSeq < s.info.FirstSeq || s.info.LastSeq == 0 {
		return usage("stream %s is empty", s.name)
	}
	return usage("stream %s has no messages%s; its first message is of %s, its last of %s", s.name, within, io.exact(s.info.FirstAt), io.exact(s.info.LastAt))
}
