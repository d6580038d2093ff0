package deploy_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// confinement has the security settings of a container in compose.yaml.
type confinement struct {
	Image       string
	Build       struct{ Context, Dockerfile string }
	User        string
	Ports       []string
	Volumes     []string
	Environment map[string]string
	Secrets     []string
	EnvFile     []string `yaml:"env_file"`
	ReadOnly    bool     `yaml:"read_only"`
	Tmpfs       []string
	CapDrop     []string `yaml:"cap_drop"`
	CapAdd      []string `yaml:"cap_add"`
	SecurityOpt []string `yaml:"security_opt"`
	MemLimit    string   `yaml:"mem_limit"`
	PidsLimit   int      `yaml:"pids_limit"`
	Privileged  bool
	NetworkMode string `yaml:"network_mode"`
	Pid, IPC    string
	Devices     []string
}

func confinements(t *testing.T) map[string]confinement {
	t.Helper()
	var c struct{ Services map[string]confinement }
	if err := yaml.Unmarshal([]byte(read(t, "compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Services) == 0 {
		t.Fatal("compose.yaml has no services")
	}
	return c.Services
}

// Each container of compose.yaml has only the capabilities that its image needs to start, gains none, has limits of
// memory and processes, and shares nothing with the host except read-only files.
func TestComposeConfinesItsContainers(t *testing.T) {
	// The image of Postgres needs these to give its volume to its user, and to switch to that user.
	needed := map[string][]string{"postgres": {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}}
	for name, s := range confinements(t) {
		if !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.CapAdd, needed[name]) {
			t.Errorf("%s: drops the capabilities %q and has %q, want ALL and %q", name, s.CapDrop, s.CapAdd, needed[name])
		}
		if !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) {
			t.Errorf("%s: security_opt is %q", name, s.SecurityOpt)
		}
		if s.MemLimit == "" || s.PidsLimit == 0 {
			t.Errorf("%s: has %q of memory and %d processes at most; set both", name, s.MemLimit, s.PidsLimit)
		}
		if !s.ReadOnly && name != "postgres" { // Postgres writes a socket and a PID file
			t.Errorf("%s: its files can be written", name)
		}
		if s.Privileged || s.NetworkMode != "" || s.Pid != "" || s.IPC != "" || len(s.Devices) > 0 {
			t.Errorf("%s: shares the machine: %+v", name, s)
		}
		for _, v := range s.Volumes {
			if (strings.HasPrefix(v, ".") || strings.HasPrefix(v, "/")) && !strings.HasSuffix(v, ":ro") || strings.Contains(v, "docker.sock") {
				t.Errorf("%s: may write the files of the machine at %s", name, v)
			}
		}
	}
}

// No port of compose.yaml is reachable from other machines, and Postgres is not published at all.
func TestComposeListensOnLoopback(t *testing.T) {
	published := 0
	for name, s := range confinements(t) {
		for _, port := range s.Ports {
			published++
			if !strings.HasPrefix(port, "127.0.0.1:") || name == "postgres" {
				t.Errorf("%s: publishes %s", name, port)
			}
		}
	}
	if published < 3 { // two nodes, and NATS
		t.Errorf("%d ports are published", published)
	}
}

// The nodes run as a Postgres user without ownership, another user migrates, both authenticate with a secret file, and
// so do the nodes to NATS.
func TestComposeUsesSeparateUsers(t *testing.T) {
	users := map[string]string{"node1": "deadman", "node2": "deadman", "migrate": "deadman_owner"}
	for name, s := range confinements(t) {
		at := s.Environment["DEADMAN_DATABASE_URL"]
		user, found := users[name]
		if found != (at != "") {
			t.Errorf("%s: connects to %q", name, at)
		}
		if !found {
			continue
		}
		pass := map[string]string{"deadman": "worker.pgpass", "deadman_owner": "owner.pgpass"}[user]
		if !strings.HasPrefix(at, "postgres://"+user+"@postgres:5432/deadman?") || !strings.HasSuffix(at, "passfile=/run/secrets/"+pass) {
			t.Errorf("%s: connects to %s, want as %s with %s", name, at, user, pass)
		}
		want := []string{pass}
		if user == "deadman" {
			want = append(want, "nats.token")
			if s.Environment["DEADMAN_NATS_TOKEN_FILE"] != "/run/secrets/nats.token" {
				t.Errorf("%s: shows NATS no token", name)
			}
		}
		if !slices.Equal(s.Secrets, want) {
			t.Errorf("%s: is given the secrets %q, want %q", name, s.Secrets, want)
		}
		if s.Environment["DEADMAN_INSECURE"] != "" {
			t.Errorf("%s: is open", name)
		}
	}
}

// version matches an image tag with a version, or a digest.
var version = regexp.MustCompile(`^[a-z]+(:[0-9]+(\.[0-9]+)*(-[a-z0-9.-]+)?(@sha256:[0-9a-f]{64})?|@sha256:[0-9a-f]{64})$`)

// Images have version tags. The binary is built with the Go version of go.mod and runs as an unprivileged user in an
// image from scratch.
func TestImagesHaveVersions(t *testing.T) {
	for name, s := range confinements(t) {
		if s.Build.Context == "" && !version.MatchString(s.Image) {
			t.Errorf("%s: the image %s has no version", name, s.Image)
		}
	}
	text := read(t, "Dockerfile")
	from := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(text, -1)
	if len(from) != 2 || !version.MatchString(from[0][1]) || from[1][1] != "scratch" {
		t.Fatalf("the image is made from %q, want golang of a version and then scratch", from)
	}
	language := regexp.MustCompile(`(?m)^go ([0-9]+\.[0-9]+)`).FindStringSubmatch(read(t, "../go.mod"))
	if len(language) == 0 || !strings.HasPrefix(from[0][1], "golang:"+language[1]+"-") {
		t.Errorf("the binary is built with %s, and go.mod has %q", from[0][1], language)
	}
	if user := regexp.MustCompile(`(?m)^USER ([1-9][0-9]*):([1-9][0-9]*)$`).FindString(text); user == "" {
		t.Error("the image runs as root")
	}
	if strings.Contains(text, "ADD ") || regexp.MustCompile(`(?i)(password|secret|token)\s*=`).MatchString(text) {
		t.Error("the image downloads files, or has a secret in it")
	}
	ignored := strings.Fields(read(t, "../.dockerignore"))
	for _, path := range []string{".git", "deploy/secrets", "deadman-data"} {
		if !slices.Contains(ignored, path) {
			t.Errorf("%s gets into the image's build", path)
		}
	}
}

// maxExposure is the maximum exposure of the unit by systemd-analyze, in tenths: 0 is confined, 100 is exposed.
const maxExposure = "15"

func TestUnitIsConfined(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here to read the unit")
	}
	out, err := exec.CommandContext(t.Context(), analyze, "security", "--no-pager", "--offline=yes", "--threshold="+maxExposure, "deadman.service").CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		t.Errorf("%v: %s", err, lines[len(lines)-1])
	}
}
