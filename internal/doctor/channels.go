package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"sync"

	"deadman/internal/notify"
)

// channels connects to the receivers of each channel, without a message. A receiver that does not answer delays others not.
func channels(ctx context.Context, i *inspection) {
	if i.Notify == "" {
		return
	}
	known, err := notify.Load(i.Notify)
	if err != nil {
		return // the finding about the file has it
	}
	for _, entry := range known.Idle() {
		i.problem("routes", Warning, entry, "change the order of the routes or let the earlier one continue, or remove the entry")
	}
	type probe struct {
		certificate *x509.Certificate
		err         error
	}
	probes := make([]probe, len(known.Channels))
	var running sync.WaitGroup
	for n, spec := range known.Channels {
		running.Go(func() { probes[n].certificate, probes[n].err = notify.Probe(ctx, spec) })
	}
	running.Wait()
	for n, spec := range known.Channels {
		check, found := "channel "+spec.Name, probes[n]
		switch {
		case errors.Is(found.err, notify.ErrNoProbe):
			i.problem(check, Unknown, found.err.Error(), "deadman channel test "+spec.Name+" asks a running node to send one")
		case found.err != nil:
			i.problem(check, Failed, found.err.Error(), "its messages wait for up to 72 hours; correct the channel, or the network of this machine")
		default:
			i.ok(check, "%s, reached without a message", spec.Kind)
		}
		if found.certificate != nil {
			i.validity(check, "the certificate of its receiver", found.certificate.NotAfter)
		}
	}
}

// certificates checks the certificates in files: that of the node for the broker, and those that verify the broker.
func certificates(i *inspection) {
	for _, file := range []struct{ check, path, whose string }{
		{"broker client certificate", i.NATSCert, "the certificate of the node"},
		{"broker CA certificates", i.NATSCA, "a CA certificate"},
	} {
		if file.path == "" {
			continue
		}
		all, err := certificatesIn(file.path)
		if err != nil {
			i.problem(file.check, Failed, err.Error(), "correct the file; a node does not connect without it")
			continue
		}
		first := all[0]
		for _, c := range all {
			if c.NotAfter.Before(first.NotAfter) {
				first = c
			}
		}
		i.validity(file.check, file.whose+" ("+first.Subject.CommonName+") in "+file.path, first.NotAfter)
	}
}

// certificatesIn reads the certificates of a PEM file. It has at least one.
func certificatesIn(path string) (all []*x509.Certificate, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New(path + ": " + err.Error())
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New(path + " has no certificate in PEM")
	}
	return all, nil
}
