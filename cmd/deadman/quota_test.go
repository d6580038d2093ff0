package main

import (
	"strings"
	"testing"

	"deadman/web"
)

func TestQuotas(t *testing.T) {
	t.Parallel()
	n := newClosedNode(t)
	n.expect(0, []string{"quota", "list"}, "no quotas: none is set, and no token has a prefix")
	n.expect(0, []string{"quota", "set", "acme-*", "--rules", "5", "--jobs", "0", "--alert-bytes", "2MiB", "--event-bytes", "64KiB", "--job-bytes", "3MiB", "--rule-bytes", "5MiB", "--subjects", "7", "--schedules", "9", "--kept-ping-bytes", "6MiB"},
		"acme-*", "0 of 5", "0 B of 5.0 MiB", "0 of 7", "0 of 9", "0 B of 6.0 MiB", "0 of 0", "1000/s", "64 KiB/s", "0 B of 3.0 MiB", "0 of 10000/h", "0 B of 2.0 MiB")
	n.expect(0, []string{"quota", "list"}, "acme-*", "0 of 5", " by ")
	quotas := readJSON[web.Page[web.Quota]](n, "quota", "list").Items
	if len(quotas) != 1 || quotas[0].Prefix != "acme-" || quotas[0].Limits[0].Default || quotas[0].Limits[1].Default || quotas[0].Limits[2].Default || quotas[0].Limits[3].Default || !quotas[0].Limits[6].Default {
		t.Fatalf("%+v", quotas)
	}
	made := readJSON[web.NewToken](n, "token", "create", "acme", "--scope", "read", "--prefix", "acme-*")
	acme := &inProcessNode{t: t, env: append(n.env[:1:1], "DEADMAN_TOKEN="+made.Secret)}
	acme.expect(0, []string{"token", "self"}, "acme-*", "0 of 5", "2.0 MiB")
	acme.expect(0, []string{"quota", "list"}, "acme-*")
	acme.expect(1, []string{"quota", "set", "acme-*"}, "admin")
	for _, wrong := range [][]string{{"acme-*", "--rules", "-1"}, {"acme-*", "--alert-bytes", "much"}, {"acme-*", "--job-bytes", "1.x"}, {"acme-*", "--event-bytes", "-1"}, {"acme-*", "--jobs", "1.5"}, {}} {
		n.expect(2, append([]string{"quota", "set"}, wrong...))
	}
	n.expect(1, []string{"quota", "set", "ACME"}, "is not how the name of a rule begins")
	if out := n.mustRun("quota", "set", "acme-*", "--rules", "5", "--jobs", "0", "--alert-bytes", "2MiB", "-o", "json"); !strings.Contains(out, `"default": true`) {
		t.Error(out)
	}
	n.expect(0, []string{"quota", "delete", "acme-*", "--yes"}, "deleted: quota of acme-*")
	n.expect(0, []string{"token", "audit", "--action", "quota.*"}, "quota.set", "quota.delete", "quota/acme-", "rules 5; jobs 0; alert_bytes 2097152")
	n.expect(1, []string{"quota", "delete", "acme-", "--yes"}, "quota not found", "deadman quota list")
}
