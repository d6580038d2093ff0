package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"deadman/internal/longtest"
)

// The values of a small and of a large installation.
const (
	fewValues = `
database: {secret: database}
nats: {url: "nats://nats:4222"}
`
	manyValues = `
image: {repository: registry.example.org/deadman, tag: 0.1.0}
imagePullSecrets: [{name: registry}]
replicas: 3
database: {secret: database, ownerSecret: database-owner}
nats: {url: "nats://nats-0:4222,nats://nats-1:4222", secret: nats, files: {nats_creds: nats.creds, nats_ca: ca.pem}}
settings: {keep_history: 30d, token_rate: 1000000, insecure: false}
rules: {orders.yaml: "name: order-late\n"}
files: {notify: "channels: {}\n", calendars: "calendars: {}\n"}
ingress: {enabled: true, className: nginx, host: deadman.example.org, tlsSecret: tls, annotations: {a/b: c}}
networkPolicy: {from: [{namespaceSelector: {matchLabels: {team: shop}}}]}
podAnnotations: {a/b: c}
nodeSelector: {disk: ssd}
tolerations: [{key: a, operator: Exists}]
affinity: {nodeAffinity: {}}
`
)

// chart runs the pinned Helm on the chart.
type chart struct{ helm, validator string }

func newChart(t *testing.T) chart {
	t.Helper()
	var paths []string
	for _, name := range []string{"helm", "kubectl-validate"} {
		out, err := exec.CommandContext(t.Context(), "../internal/tools/tool", name).Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		paths = append(paths, strings.TrimSpace(string(out)))
	}
	return chart{paths[0], paths[1]}
}

// run runs a command of Helm with values.
func (c chart) run(t *testing.T, values string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.helm, append(args, "--kube-version", "1.30.0", "--values", writeFile(t, "values.yaml", values))...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	return string(out) + errs.String(), err
}

// validate checks manifests with the schemas of Kubernetes.
func (c chart) validate(t *testing.T, manifests string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), c.validator, writeFile(t, "manifests.yaml", manifests)).CombinedOutput()
	return string(out), err
}

// TestChart checks that Helm accepts the chart, that Kubernetes accepts what it renders, and that values without a database or
// NATS are refused by name.
func TestChart(t *testing.T) {
	longtest.Only(t, "it builds Helm and a validator of manifests")
	t.Parallel()
	c := newChart(t)
	for name, values := range map[string]string{"few": fewValues, "many": manyValues} {
		if out, err := c.run(t, values, "lint", "--strict", "helm"); err != nil {
			t.Errorf("%s: helm lint: %v\n%s", name, err, out)
		}
		manifests, err := c.run(t, values, "template", "shop", "helm")
		if err != nil {
			t.Errorf("%s: helm template: %v\n%s", name, err, manifests)
			continue
		}
		if out, err := c.validate(t, manifests); err != nil {
			t.Errorf("%s: Kubernetes refuses the manifests: %v\n%s\n%s", name, err, out, manifests)
		}
		broken := strings.Replace(manifests, "periodSeconds: 10", "periodSecond: 10", 1)
		if out, err := c.validate(t, broken); err == nil || !strings.Contains(out, "periodSecond") {
			t.Errorf("%s: an unknown field passes: %v\n%s", name, err, out)
		}
	}
	monitored := fewValues + "serviceMonitor: {enabled: true, tokenSecret: metrics}\n" // its kind is the Prometheus operator's
	if out, err := c.run(t, monitored, "template", "shop", "helm"); err != nil || !strings.Contains(out, "kind: ServiceMonitor") {
		t.Errorf("a monitor: %v\n%s", err, out)
	}
	for values, want := range map[string]string{
		"nats: {url: a}":                                "database.secret is empty: name a secret",
		"database: {secret: a}":                         "nats.url is empty: list the URLs",
		fewValues + "ingress: {enabled: true}\n":        "ingress.host is empty: name the host",
		fewValues + "serviceMonitor: {enabled: true}\n": "serviceMonitor.tokenSecret is empty: name a secret",
	} {
		if out, err := c.run(t, values, "template", "shop", "helm"); err == nil || !strings.Contains(out, want) {
			t.Errorf("values %q: %v, want %q\n%s", values, err, want, out)
		}
	}
}

// TestChartSetsKnownSettings checks that a node accepts the environment of the Deployment: it stops at unknown settings and at
// values out of bounds.
func TestChartSetsKnownSettings(t *testing.T) {
	longtest.Only(t, "it builds Helm")
	t.Parallel()
	c := newChart(t)
	binary := filepath.Join(t.TempDir(), "deadman")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", binary, "../cmd/deadman").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	config := func(values string) (string, error) {
		t.Helper()
		deployment, err := c.run(t, values, "template", "shop", "helm", "--show-only", "templates/deployment.yaml")
		if err != nil {
			t.Fatalf("helm template: %v\n%s", err, deployment)
		}
		cmd := exec.CommandContext(t.Context(), binary, "config")
		cmd.Env = append(os.Environ(), environment(t, deployment)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := config(manyValues)
	if err != nil {
		t.Errorf("deadman config: %v\n%s", err, out)
	}
	for _, want := range []string{"/etc/deadman/nats/nats.creds", "/etc/deadman/files/notify.yaml", "/etc/deadman/rules", "https://deadman.example.org", "1000000", "nats://nats-0:4222,nats://nats-1:4222"} {
		if !strings.Contains(out, want) {
			t.Errorf("the settings lack %s:\n%s", want, out)
		}
	}
	if out, err := config(fewValues + "settings: {keep_histroy: 1d}\n"); err == nil || !strings.Contains(out, "DEADMAN_KEEP_HISTROY") {
		t.Errorf("an unknown setting passes: %v\n%s", err, out)
	}
}

// environment returns the variables of the container of a Deployment. The database's URL comes from a secret.
func environment(t *testing.T, deployment string) (variables []string) {
	t.Helper()
	var d struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct {
						Env []struct{ Name, Value string }
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(deployment), &d); err != nil {
		t.Fatal(err)
	}
	for _, v := range d.Spec.Template.Spec.Containers[0].Env {
		if v.Value == "" {
			v.Value = "postgres://deadman@db.example.org/deadman"
		}
		variables = append(variables, v.Name+"="+v.Value)
	}
	return variables
}
