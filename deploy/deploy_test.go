// Package deploy_test checks the deployment files as far as possible without running Docker and systemd.
package deploy_test

import (
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	natsserver "github.com/nats-io/nats-server/v2/server"

	"deadman/internal/bench"
	"deadman/internal/store/storetest"
)

// composition has the used parts of compose.yaml.
type composition struct {
	Services map[string]struct {
		Image       string
		Build       struct{ Context, Dockerfile string }
		Command     []string
		Environment map[string]string
		EnvFile     []string `yaml:"env_file"`
		Secrets     []string
		Volumes     []string
		DependsOn   map[string]any `yaml:"depends_on"`
	}
	Volumes map[string]any
	Secrets map[string]struct{ File string }
}

func compose(t *testing.T) composition {
	t.Helper()
	var c composition
	if err := yaml.Unmarshal([]byte(read(t, "compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestComposeReferences(t *testing.T) {
	c := compose(t)
	nodes := 0
	for name, s := range c.Services {
		if s.Image == "" {
			t.Errorf("%s has no image", name)
		}
		if s.Build.Context != "" {
			read(t, filepath.Join(s.Build.Context, s.Build.Dockerfile))
			nodes++
		}
		for other := range s.DependsOn {
			if _, ok := c.Services[other]; !ok {
				t.Errorf("%s depends on %s, which is not there", name, other)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(from, ".") {
				read(t, from)
			} else if _, ok := c.Volumes[from]; !ok {
				t.Errorf("%s uses volume %s, which is not there", name, from)
			}
		}
		for _, secret := range s.Secrets {
			if _, ok := c.Secrets[secret]; !ok {
				t.Errorf("%s uses the secret %s, which is not there", name, secret)
			}
		}
	}
	if nodes < 2 {
		t.Errorf("%d nodes are built, want two", nodes)
	}
}

// TestComposeSetsPostgres checks that deadman bench has no advice for the Postgres settings of compose.yaml.
func TestComposeSetsPostgres(t *testing.T) {
	command := compose(t).Services["postgres"].Command
	if len(command) == 0 || command[0] != "postgres" {
		t.Fatalf("%q; want postgres and settings", command)
	}
	var options []string
	for c := range slices.Chunk(command[1:], 2) {
		if c[0] != "-c" || len(c) != 2 {
			t.Fatalf("%q; want each setting after a -c", command)
		}
		options = append(options, c[1])
	}
	cluster, err := storetest.StartCluster(storetest.Settings{Durable: true, Options: options})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	advice, err := bench.Advice(t.Context(), cluster.DSN)
	if err != nil || len(advice) > 0 {
		t.Errorf("%v; deadman bench advises %q", err, advice)
	}
}

// compose.yaml has no passwords, every service requires one, and the script creates them.
func TestComposeHasNoPasswords(t *testing.T) {
	c := compose(t)
	dir := filepath.Join(t.TempDir(), "secrets")
	runScript(t, "./compose-secrets.sh", dir)
	for name, s := range c.Services {
		for key, value := range s.Environment {
			if at, err := url.Parse(value); err == nil && at.User != nil {
				if _, has := at.User.Password(); has || at.User.Username() == "postgres" {
					t.Errorf("%s: %s has a password, or is a superuser's: %s", name, key, value)
				}
			}
			if strings.HasSuffix(key, "PASSWORD") {
				t.Errorf("%s: %s stands in the file", name, key)
			}
		}
		for _, file := range s.EnvFile {
			read(t, filepath.Join(dir, strings.TrimPrefix(file, "secrets/")))
		}
	}
	for name, secret := range c.Secrets {
		read(t, filepath.Join(dir, strings.TrimPrefix(secret.File, "secrets/")))
		if "secrets/"+name != secret.File {
			t.Errorf("the secret %s is in %s", name, secret.File)
		}
	}
	for _, text := range []string{"compose.yaml", "deadman.env", "README.md"} {
		if strings.Contains(read(t, text), "no tokens yet") {
			t.Errorf("%s reports that there are no tokens", text)
		}
	}
}

func runScript(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func TestNATSConfigSyncsAcknowledgedWrites(t *testing.T) {
	if _, err := natsserver.ProcessConfigFile("nats.conf"); err == nil {
		t.Error("the server starts without a token")
	}
	dir := filepath.Join(t.TempDir(), "secrets")
	runScript(t, "./compose-secrets.sh", dir)
	token := strings.TrimSpace(read(t, filepath.Join(dir, "nats.token")))
	t.Setenv("DEADMAN_NATS_TOKEN", token)
	o, err := natsserver.ProcessConfigFile("nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	if o.Authorization != token {
		t.Errorf("the server takes the token %q", o.Authorization)
	}
	if !o.JetStream || !o.SyncAlways || o.StoreDir != "/data" {
		t.Errorf("JetStream %v, SyncAlways %v, StoreDir %q; want all three set", o.JetStream, o.SyncAlways, o.StoreDir)
	}
}

// An unknown variable stops a node at its start, so the test detects misspelled names.
func TestSettingsAreKnown(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "deadman")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "../cmd/deadman").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for name, env := range environments(t) {
		t.Run(name, func(t *testing.T) {
			if len(env) == 0 {
				t.Fatal("no setting found")
			}
			cmd := exec.CommandContext(t.Context(), bin, "config")
			cmd.Env = env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("deadman config with %q: %v\n%s", env, err, out)
			}
		})
	}
}

// environments returns the settings of a node in each file.
func environments(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for name, s := range compose(t).Services {
		for _, key := range slices.Sorted(maps.Keys(s.Environment)) {
			if strings.HasPrefix(key, "DEADMAN_") {
				found["compose "+name] = append(found["compose "+name], key+"="+s.Environment[key])
			}
		}
	}
	assignment := regexp.MustCompile(`DEADMAN_[A-Z_]+=\S+`)
	for _, file := range []string{"Dockerfile", "deadman.service", "deadman.env"} {
		text := strings.ReplaceAll(read(t, file), "%S", "/var/lib")
		found[filepath.Base(file)] = assignment.FindAllString(text, -1)
	}
	return found
}

func TestUnitIsValid(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here to read the unit")
	}
	unit := strings.ReplaceAll(read(t, "deadman.service"), "/usr/local/bin/deadman", "/bin/true")
	path := filepath.Join(t.TempDir(), "deadman.service")
	if err := os.WriteFile(path, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), verify, "verify", "--man=no", path).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "deadman.service") {
			t.Error(strings.TrimSpace(line))
		}
	}
	if err != nil && !t.Failed() {
		t.Logf("systemd-analyze complains about other units of this machine: %v", err)
	}
}

// read returns the text of a file; for a folder it only checks that it exists.
func read(t *testing.T, path string) string {
	t.Helper()
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
