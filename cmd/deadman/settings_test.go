package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// startConfig is the configuration of a node's start.
type startConfig struct {
	file string
	env  []string
	args []string
}

func (g startConfig) flags(t *testing.T) (*pflag.FlagSet, []string) {
	t.Helper()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	addSettings(flags)
	args := g.args
	if g.file != "" {
		path := filepath.Join(t.TempDir(), "deadman.yaml")
		if err := os.WriteFile(path, []byte(g.file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--config", path}, args...)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags, g.env
}

func TestPrecedence(t *testing.T) {
	const file, env, flag = "file", "DEADMAN_LEASE", "--lease"
	for _, c := range []struct {
		name  string
		given startConfig
		lease time.Duration
		from  string
	}{
		{"nothing", startConfig{}, 15 * time.Second, "default"},
		{"file", startConfig{file: "lease: 1m"}, time.Minute, file},
		{"environment", startConfig{env: []string{"DEADMAN_LEASE=2m"}}, 2 * time.Minute, env},
		{"flag", startConfig{args: []string{"--lease=3m"}}, 3 * time.Minute, flag},
		{"environment over file", startConfig{file: "lease: 1m", env: []string{"DEADMAN_LEASE=2m"}}, 2 * time.Minute, env},
		{"flag over file", startConfig{file: "lease: 1m", args: []string{"--lease=3m"}}, 3 * time.Minute, flag},
		{"flag over environment", startConfig{env: []string{"DEADMAN_LEASE=2m"}, args: []string{"--lease=3m"}}, 3 * time.Minute, flag},
		{"flag over all", startConfig{file: "lease: 1m", env: []string{"DEADMAN_LEASE=2m"}, args: []string{"--lease=3m"}}, 3 * time.Minute, flag},
		{"flag with the default's value", startConfig{file: "lease: 1m", args: []string{"--lease=15s"}}, 15 * time.Second, flag},
		{"empty variable", startConfig{file: "lease: 1m", env: []string{"DEADMAN_LEASE="}}, time.Minute, file},
		{"file without it", startConfig{file: "workers: 3"}, 15 * time.Second, "default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			flags, env := c.given.flags(t)
			r, err := resolve(flags, env)
			if err != nil {
				t.Fatal(err)
			}
			if r.Lease != c.lease {
				t.Errorf("lease is %s, want %s", r.Lease, c.lease)
			}
			all, err := mergeSettings(flags, env)
			if err != nil {
				t.Fatal(err)
			}
			for _, got := range all {
				if got.name == "lease" && got.origin != c.from && (c.from != file || !strings.HasSuffix(got.origin, "deadman.yaml")) {
					t.Errorf("it comes from %q, want %q", got.origin, c.from)
				}
			}
		})
	}
}

// TestEverySetting checks that every setting is reachable by each of its names, and sets its own field.
func TestEverySetting(t *testing.T) {
	other := map[string]string{
		"data_dir": "/d", "database_url": "postgres://h/d", "nats_url": "nats://h", "nats_creds": "/c",
		"nats_nkey": "/n", "nats_token_file": "/t", "nats_ca": "/ca", "nats_cert": "/ce", "nats_key": "/k", "namespace": "staging",
		"http_addr": ":1", "nats_addr": ":2", "rules": "/r", "public_url": "https://p.example",
		"calendars": "/cal.yaml", "sources": "/sources.yaml", "hooks": "/hooks.yaml", "login": "/login.yaml", "notify": "/notify.yaml", "heartbeat_url": "https://h.example/secret", "heartbeat_subject": "beats.deadman", "heartbeat_every": "7s", "otlp_endpoint": "http://c.example:4318", "insecure": "true", "token_rate": "8", "connections": "10", "client_connections": "11", "trusted_proxies": "10.0.0.0/8, 192.0.2.7,2001:db8::/32", "alerts_bytes": "2GiB", "events_bytes": "3GiB",
		"keep_history": "1d", "keep_alerts": "2d", "keep_dead_letters": "3d",
		"dead_letter_alert": "12", "lease": "4s", "workers": "5", "drain": "6s", "shards": "7", "log_level": "debug", "log_format": "json",
	}
	flags, _ := startConfig{}.flags(t)
	preset, err := resolve(flags, nil)
	if err != nil {
		t.Fatalf("the defaults do not fit: %v", err)
	}
	for _, s := range settings {
		value, ok := other[s.name]
		if !ok {
			t.Fatalf("%s is not tested", s.name)
		}
		for _, g := range []startConfig{
			{file: s.name + ": '" + value + "'"},
			{env: []string{s.variable() + "=" + value}},
			{args: []string{"--" + s.flag() + "=" + value}},
		} {
			flags, env := g.flags(t)
			r, err := resolve(flags, env)
			if err != nil {
				t.Errorf("%+v: %v", g, err)
				continue
			}
			want := preset
			if err := s.set(&want, value); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(r, want) || reflect.DeepEqual(r, preset) {
				t.Errorf("%+v gives %+v", g, r)
			}
		}
	}
}

func TestWrongSettings(t *testing.T) {
	for _, c := range []struct {
		name  string
		given startConfig
		want  []string
	}{
		{"unknown variable", startConfig{env: []string{"DEADMAN_LEESE=3s"}}, []string{"DEADMAN_LEESE", "did you mean DEADMAN_LEASE?"}},
		{"unknown variable, nothing near", startConfig{env: []string{"DEADMAN_XYZZY_PLUGH=1"}}, []string{"DEADMAN_XYZZY_PLUGH", "DEADMAN_DATA_DIR"}},
		{"unknown and empty variable", startConfig{env: []string{"DEADMAN_LEESE="}}, []string{"DEADMAN_LEESE"}},
		{"two unknown variables", startConfig{env: []string{"DEADMAN_AA=", "DEADMAN_BB="}}, []string{"DEADMAN_AA", "DEADMAN_BB"}},
		{"unknown key", startConfig{file: "workers: 3\nlaese: 3s\n"}, []string{"deadman.yaml", "line 2", "laese", "did you mean lease?"}},
		{"flag's name in a file", startConfig{file: "data-dir: x"}, []string{"data-dir", "did you mean data_dir?"}},
		{"key without a value", startConfig{file: "lease:"}, []string{"line 1", "lease has no value"}},
		{"key twice", startConfig{file: "lease: 1s\nlease: 2s"}, []string{"deadman.yaml", "lease"}},
		{"key twice in two documents", startConfig{file: "lease: 1s\n---\nlease: 2s"}, []string{"line 3", "duplicate setting lease"}},
		{"list", startConfig{file: "lease: [1s]"}, []string{"lease must be a single value"}},
		{"mapping", startConfig{file: "lease:\n  a: 1s"}, []string{"lease must be a single value"}},
		{"no mapping", startConfig{file: "- lease"}, []string{"not a mapping of settings"}},
		{"not YAML", startConfig{file: "lease: [1s"}, []string{"deadman.yaml"}},
		{"too large", startConfig{file: strings.Repeat("# x\n", 20_000)}, []string{"exceeds the limit of 64 KiB"}},
		{"no such file", startConfig{args: []string{"--config", "/nowhere/x.yaml"}}, []string{"/nowhere/x.yaml"}},
		{"no such file by variable", startConfig{env: []string{"DEADMAN_CONFIG=/nowhere/x.yaml"}}, []string{"/nowhere/x.yaml"}},
		{"time without unit", startConfig{file: "lease: 15"}, []string{`lease is "15"`, "deadman.yaml", "such as 90d"}},
		{"no time", startConfig{args: []string{"--keep-history=0"}}, []string{"keep_history", "--keep-history"}},
		{"time too short", startConfig{args: []string{"--lease=1ms"}}, []string{`lease is "1ms"`, "--lease", "not from 1s to 10m"}},
		{"time too long", startConfig{env: []string{"DEADMAN_KEEP_ALERTS=101y"}}, []string{"DEADMAN_KEEP_ALERTS", "not from 1h to 100y"}},
		{"negative time", startConfig{args: []string{"--drain=-1s"}}, []string{"drain", "--drain"}},
		{"no number", startConfig{env: []string{"DEADMAN_WORKERS=many"}}, []string{`workers is "many"`, "DEADMAN_WORKERS", "from 1 to 4096"}},
		{"number too small", startConfig{args: []string{"--shards=0"}}, []string{"shards", "from 1 to 1024"}},
		{"number too large", startConfig{args: []string{"--shards=1025"}}, []string{"shards"}},
		{"no size", startConfig{args: []string{"--alerts-bytes=much"}}, []string{"alerts_bytes", "such as 512MiB"}},
		{"size too small", startConfig{env: []string{"DEADMAN_ALERTS_BYTES=10kB"}}, []string{"alerts_bytes", "at least 1MiB"}},
		{"no address", startConfig{args: []string{"--http-addr=localhost"}}, []string{"http_addr", "host:port"}},
		{"no network", startConfig{args: []string{"--trusted-proxies=10.0.0.0/8,proxy"}}, []string{"trusted_proxies", `"proxy"`, "10.0.0.0/8,192.0.2.7"}},
		{"every network", startConfig{args: []string{"--trusted-proxies=0.0.0.0/0"}}, []string{"trusted_proxies", "contains all addresses"}},
		{"no link", startConfig{args: []string{"--public-url=deadman.example.org"}}, []string{"public_url", "https://"}},
		{"no level", startConfig{args: []string{"--log-level=loud"}}, []string{"log_level"}},
		{"no format", startConfig{args: []string{"--log-format=xml"}}, []string{"log_format", "auto, text, json"}},
		{"neither yes nor no", startConfig{env: []string{"DEADMAN_INSECURE=perhaps"}}, []string{`insecure is "perhaps"`, "DEADMAN_INSECURE", "not true or false"}},
		{"two wrong", startConfig{args: []string{"--lease=x", "--drain=y"}}, []string{"lease", "drain"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			flags, env := c.given.flags(t)
			_, err := resolve(flags, env)
			if err == nil {
				t.Fatal("it is taken")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not contain %q", err, part)
				}
			}
			if misuse := (usageError{}); !errors.As(err, &misuse) {
				t.Errorf("%v is no usage error", err)
			}
		})
	}
}

// TestUnrelatedVariables checks that a node starts with each documented variable of clients, such as in a command of
// `heartbeat run`, and with those of other programs.
func TestUnrelatedVariables(t *testing.T) {
	flags, _ := startConfig{}.flags(t)
	env := []string{"DEADMAN_TEST_DATABASE_URL=x", "DEADMAN_TEST_ANY=y", "PATH=/bin", "DEADMANX=1"}
	_, table, _ := strings.Cut(readPage(t, settingsPage), "## Variables of the command line")
	documented := regexp.MustCompile("(?m)^\\| `(DEADMAN_[A-Z_]+)` ").FindAllStringSubmatch(table, -1)
	if len(documented) < len(clientVariables) {
		t.Fatalf("%s has %d variables of clients", settingsPage, len(documented))
	}
	for _, name := range documented {
		env = append(env, name[1]+"=v")
	}
	if _, err := resolve(flags, env); err != nil {
		t.Error(err)
	}
}

// TestValuesAsWritten checks that settings keep their text, although YAML reads 0123 as 83, and yes as true.
func TestValuesAsWritten(t *testing.T) {
	for written, want := range map[string]string{
		"data_dir: 0123": "0123", "data_dir: true": "true", "data_dir: 1e3": "1e3", "data_dir: 'a b'": "a b",
		"data_dir: \"a\\tb\"": "a\tb", "data_dir: /x # the rest": "/x",
	} {
		flags, env := startConfig{file: written}.flags(t)
		r, err := resolve(flags, env)
		if err != nil || r.DataDir != want {
			t.Errorf("%s gives %q, %v; want %q", written, r.DataDir, err, want)
		}
	}
}

// TestHeartbeatURLIsShownWithoutItsPath checks that the path is hidden, because knowing it is enough to send
// heartbeats.
func TestHeartbeatURLIsShownWithoutItsPath(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "https://hc.example/ping/s3cret?k=s3cret": "https://hc.example/xxxxx",
		"https://u:s3cret@hc.example": "https://hc.example/xxxxx", "hc.example/s3cret": "xxxxx", "https://h\x7f/s3cret": "xxxxx",
	} {
		if got := shownValue((resolvedSetting{setting: setting{name: heartbeatURL}, value: value})); got != want {
			t.Errorf("%q is shown as %q, want %q", value, got, want)
		}
	}
	flags, _ := startConfig{args: []string{"--heartbeat-url=hc.example/s3cret"}}.flags(t)
	_, err := resolve(flags, nil)
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error is %v", err)
	}
}

// TestAddressesAreShownWithoutCredentials checks addresses that can't be parsed, because the password may be
// anywhere in them.
func TestAddressesAreShownWithoutCredentials(t *testing.T) {
	for _, value := range []string{
		"postgres://u:pa ss@h/x", "postgres://u:pa\nss@h/x", "postgres://u:pa ss", "postgres://u:pass", "postgres:/u:pass@h/x", "postgres:u:pass@h", "postgres//u:pass", "u:pass",
		"postgres://u:p%zzass@h/x", "postgres://u:p#ass@h/x", "postgres://u:p?ass@h/x", "postgres://u:pass/@h/x", "postgres://u:x@pa ss@h", "postgres://u:x@pass word/d", "pass word",
		"postgres://h/d?password=pa ss", "postgres://h/d?pwd=pass", "postgres://h/d?Password=pass", "postgres://h/d#pass!", "postgres://h:pass/d", "postgres://[pass]/d", "pass",
		"host=h password='pa ss", "host=h password='pa ss user=x", `host=h password=pa\ ss dbname=d`, "host=h pass", "host=h pwd=pass", "host=h 'pass'", "password=pass host=h",
		"postgres://u:pass@h1,postgres://v:pa ss@h2", "nats://u:pa ss@h1,nats://v:pass@h2",
	} {
		for _, name := range []string{"database_url", "nats_url", "public_url"} {
			if name == "nats_url" && value == "pass" {
				continue // a host
			}
			got := shownValue((resolvedSetting{setting: setting{name: name}, value: value}))
			for _, secret := range []string{"pass", "pa ss", "ss@", "ss ", "zzass"} {
				if strings.Contains(strings.ReplaceAll(got, "password=", ""), secret) {
					t.Errorf("%s %q is shown as %q", name, value, got)
				}
			}
		}
	}
	for value, want := range map[string]string{
		"":                    "",
		"postgres://h:5432/d": "postgres://h:5432/d",
		"postgres://u:secret@h1:5432,h2:5433/d?target_session_attrs=read-write&x=1": "postgres://u:xxxxx@h1:5432,h2:5433/d?target_session_attrs=read-write&x=xxxxx",
		"postgres:///d?host=/var/run/postgresql":                                    "postgres:///d?host=/var/run/postgresql",
		"postgres://u:secret@[::1]:5432/d":                                          "postgres://u:xxxxx@[::1]:5432/d",
		"host=h port=5432 user=me@azure password='sec ret' dbname=d options=-cx":    "host=h port=5432 user=me@azure password=xxxxx dbname=d options=xxxxx",
		"https://deadman.example.org/a":                                             "https://deadman.example.org/a",
	} {
		if got := shownValue((resolvedSetting{setting: setting{name: "database_url"}, value: value})); got != want {
			t.Errorf("%q is shown as %q, want %q", value, got, want)
		}
	}
	if got := shownValue((resolvedSetting{setting: setting{name: "nats_url"}, value: "u:secret@h1:4222,h2:4222"})); got != "u:xxxxx@h1:4222,h2:4222" {
		t.Errorf("a list without schemes is shown as %q", got)
	}
}

func TestRedact(t *testing.T) {
	for from, want := range map[string]string{
		"":                           "",
		"postgres://h/d":             "postgres://h/d",
		"postgres://u:secret@h/d":    "postgres://u:xxxxx@h/d",
		"postgres://u:sec@ret/x@h/d": "postgres://xxxxx@h/d",
		"postgres://h/d?user=u&password=secret&x=1": "postgres://h/d?user=u&password=xxxxx&x=1",
		"host=h password=secret dbname=d":           "host=h password=xxxxx dbname=d",
		"host=h password = 'sec ret' dbname=d":      "host=h password = xxxxx dbname=d",
		"nats://token@h:4222":                       "nats://xxxxx@h:4222",
		"nats://u:a@h1,nats://u:b@h2":               "nats://u:xxxxx@h1,nats://u:xxxxx@h2",
		"nats://u:sec,ret@h1":                       "nats://u:xxxxx@h1",
		"u:s3cret@h:4222":                           "u:xxxxx@h:4222",
		"u:s3c@ret@h:4222":                          "u:xxxxx@h:4222",
		"token@h:4222":                              "xxxxx@h:4222",
		"u:a@h1:4222,v:b@h2:4222":                   "u:xxxxx@h1:4222,v:xxxxx@h2:4222",
		"u:a@h1:4222,h2:4222":                       "u:xxxxx@h1:4222,h2:4222",
		"h1:4222,u:a@h2:4222":                       "h1:xxxxx@h2:4222",
		"u:a@h1,nats://v:b@h2":                      "xxxxx@h2",
		"nats://u:a@h1,v:b@h2":                      "nats://u:xxxxx@h2",
		"h1:4222,h2:4222":                           "h1:4222,h2:4222",
		"/var/lib/deadman@1":                        "/var/lib/deadman@1",
		"host=h user=me@azure dbname=d":             "host=h user=me@azure dbname=d",
	} {
		if got := redact(from); got != want {
			t.Errorf("%q is shown as %q, want %q", from, got, want)
		}
	}
}

// TestHelpHasBounds checks that the help and the reference name the limits that a duration or a number must be within.
func TestHelpHasBounds(t *testing.T) {
	t.Parallel()
	page := readPage(t, settingsPage)
	tested := 0
	for _, s := range settings {
		wrong := map[string]string{"duration": "1ms", "number": "1000001", "size": "1kB"}[s.kind]
		if wrong == "" {
			continue
		}
		tested++
		err := s.set(&serveConfig{}, wrong)
		if err == nil {
			t.Errorf("%s: %s is accepted", s.name, wrong)
			continue
		}
		limits := regexp.MustCompile(`from (\S+) to (\S+)|at least (\S+);`).FindStringSubmatch(err.Error())
		if limits == nil {
			t.Errorf("%s: the error names no limits: %v", s.name, err)
			continue
		}
		named := limits[1] + " to " + limits[2]
		if limits[3] != "" {
			named = "at least " + limits[3]
		}
		row := regexp.MustCompile("(?m)^\\| `" + s.name + "` .*$").FindString(page)
		for where, text := range map[string]string{"the help": s.usage, "the reference": row} {
			if !strings.Contains(text, named) {
				t.Errorf("%s of %s does not name the limits %q: %q", where, s.name, named, text)
			}
		}
	}
	if tested < 10 {
		t.Errorf("%d settings have limits", tested)
	}
}

// TestHelpHasTypesAndDefaults checks that the help and the reference have the type and the default of each setting, and that the
// reference explains each type.
func TestHelpHasTypesAndDefaults(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if code := inProcess(&out, nil).run(t.Context(), []string{"serve", "--help"}); code != exitOK {
		t.Fatalf("exit %d", code)
	}
	help, page := out.String(), readPage(t, settingsPage)
	_, types, found := strings.Cut(page, "## Types\n")
	types, _, _ = strings.Cut(types, "\n## ")
	if !found {
		t.Fatalf("%s has no section of types", settingsPage)
	}
	for _, s := range settings {
		line := regexp.MustCompile("(?m)^ +--" + s.flag() + "( .*)$").FindString(help)
		kind := " " + s.kind + " "
		if s.kind == "bool" { // a flag without a value
			kind = " "
		}
		preset := "(default " + s.preset + ")"
		if s.preset == "" || s.kind == "bool" {
			preset = "(default: "
		}
		if !strings.Contains(line, "--"+s.flag()+kind) || !strings.Contains(line, preset) {
			t.Errorf("the help of %s has no type %q or default %q: %q", s.name, kind, preset, line)
		}
		if !strings.Contains(types, "\n| "+s.kind+" |") {
			t.Errorf("%s does not explain the type %s of %s", settingsPage, s.kind, s.name)
		}
	}
}
