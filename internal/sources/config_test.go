package sources_test

import (
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"deadman/checks/lookup"
	"deadman/internal/sources"
)

// writeSecrets writes secret files and returns the name of a sources file beside them.
func writeSecrets(t *testing.T) (file string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"shop.url": "postgres://deadman:opensesame@db/shop\n", "token": "Bearer opensesame\n", "two": "opensesame\nagain", "bell": "open\asesame",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SHOP_URL", " postgres://deadman:opensesame@db/archive ")
	t.Setenv("EMPTY", "")
	return filepath.Join(dir, "sources.yaml")
}

func TestSourcesAreRead(t *testing.T) {
	file := writeSecrets(t)
	specs, err := sources.Parse([]byte(`# what rules may query
sources:
  shop:
    postgres: {url_file: shop.url, statement_timeout: 500ms}
    concurrency: 2
    waiting: 16
    rate: 500
    open_after: 3
    open_for: 1m
  archive: {postgres: {url_env: SHOP_URL}}
  local: {sqlite: {path: data/shop.db}}
  catalogue:
    http:
      url: https://catalogue.example.org/api
      headers: {authorization: {file: token}, X-Api-Key: {env: SHOP_URL}}
      allow: [10.1.2.3/8, "::1", 127.0.0.1]
  bus: {nats: {}}
  other: {nats: {url_env: SHOP_URL, creds_file: other.creds}}
`), file, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	by := make(map[string]sources.Spec)
	for _, s := range specs {
		names = append(names, s.Name+" "+string(s.Kind()))
		by[s.Name] = s
	}
	if got := strings.Join(names, ", "); got != "archive postgres, bus nats, catalogue http, local sqlite, other nats, shop postgres" {
		t.Error(got)
	}
	shop := by["shop"]
	if shop.Postgres.URL != "postgres://deadman:opensesame@db/shop" || shop.Postgres.StatementTimeout != 500*time.Millisecond ||
		shop.Limits != (lookup.Limits{Concurrency: 2, Waiting: 16, Rate: 500, OpenAfter: 3, OpenFor: time.Minute}) {
		t.Errorf("%+v, %+v", shop.Limits, shop.Postgres)
	}
	if a := by["archive"]; a.Postgres.URL != "postgres://deadman:opensesame@db/archive" || a.Postgres.StatementTimeout != 2*time.Second || a.Limits != (lookup.Limits{}) {
		t.Errorf("%+v, %+v", a.Limits, a.Postgres)
	}
	if want := filepath.Join(filepath.Dir(file), "data", "shop.db"); by["local"].SQLite.Path != want {
		t.Error(by["local"].SQLite.Path)
	}
	http := by["catalogue"].HTTP
	if http.Base.String() != "https://catalogue.example.org/api" || http.Headers["Authorization"] != "Bearer opensesame" || http.Headers["X-Api-Key"] == "" ||
		fmt.Sprint(http.Allow) != "[10.0.0.0/8 ::1/128 127.0.0.1/32]" || http.CA != nil {
		t.Errorf("%+v", http)
	}
	if by["bus"].NATS.URL != "" || by["other"].NATS.URL == "" || by["other"].NATS.Creds != filepath.Join(filepath.Dir(file), "other.creds") {
		t.Errorf("%+v, %+v", by["bus"].NATS, by["other"].NATS)
	}
	for _, nothing := range []string{"", "# nothing\n", "sources: {}\n"} {
		if specs, err := sources.Parse([]byte(nothing), file, os.Getenv); err != nil || len(specs) != 0 {
			t.Errorf("%q: %v, %v", nothing, specs, err)
		}
	}
}

// All problems are reported at once, each with its position and remedy, and without secrets.
func TestBadFiles(t *testing.T) {
	file := writeSecrets(t)
	for _, c := range []struct {
		name, text string
		wantTexts  []string // a part of each problem, in order
	}{
		{"unknown field", "source: {}", []string{`1:1: source: unknown field "source"; did you mean "sources"?`}},
		{"a list", "sources: [shop]", []string{`1:10: sources: expected a mapping with a name for each source, not a list`}},
		{"all at once", `sources:
  Shop: {sqlite: {path: a}}
  none: {rate: 5}
  both: {sqlite: {path: a}, nats: {}}
  open: {postgres: {url: "postgres://a:opensesame@db"}}
  gone: {postgres: {url_file: gone}}
  lines: {postgres: {url_file: two}}
  twice: {postgres: {url_file: shop.url, url_env: SHOP_URL}}
  unset: {postgres: {url_env: NOT_SET}}
  empty: {postgres: {url_env: EMPTY}}
  long: {postgres: {url_file: shop.url, statement_timeout: 2m}}
  still: {postgres: {url_file: shop.url, statement_timeout: 0}}
  pathless: {sqlite: {}}
  many: {nats: {}, concurrency: 65, waiting: 0, rate: -1, open_after: x, open_for: 2h}
  ever: {nats: {}, open_for: 0}
  half: {nats: {creds_file: x}}
  nothing:
`, []string{
			`2:3: sources.Shop: "Shop" is not a name`,
			`3:3: sources.none: the kind of the source is missing; write postgres`,
			`4:3: sources.both: the source has several kinds, sqlite and nats; keep one`,
			`5:21: sources.open.postgres.url: unknown field "url"`,
			`6:31: sources.gone.postgres.url_file: open `,
			`7:32: sources.lines.postgres.url_file: `,
			`8:42: sources.twice.postgres.url_env: url_file is set, too; keep one`,
			`9:31: sources.unset.postgres.url_env: NOT_SET is not set in the environment of the node; set it`,
			`10:31: sources.empty.postgres.url_env: EMPTY is not set`,
			`11:60: sources.long.postgres.statement_timeout: 2m is not within 0s and 1m`,
			`12:61: sources.still.postgres.statement_timeout: the duration must be greater than 0s`,
			`13:14: sources.pathless.sqlite: path is missing; name the file`,
			`14:33: sources.many.concurrency: expected a whole number from 1 to 64`,
			`14:46: sources.many.waiting: expected a whole number from 1 to 1000`,
			`14:55: sources.many.rate: expected a whole number from 1 to 1000000`,
			`14:71: sources.many.open_after: expected a whole number`,
			`14:84: sources.many.open_for: 2h is not within 0s and 1h`,
			`15:30: sources.ever.open_for: the duration must be greater than 0s`,
			`16:10: sources.half.nats: url_file is missing; name a file with the secret, or with url_env`,
			`17:3: sources.nothing: the value is missing`,
		}},
		{"http", `sources:
  ftp: {http: {url: "ftp://example.org"}}
  user: {http: {url: "https://me:opensesame@example.org"}}
  query: {http: {url: "https://example.org/?key=opensesame"}}
  bare: {http: {}}
  heads:
    http:
      url: https://example.org
      headers: {"a b": {file: token}, host: {file: token}, Auth: {file: bell}, X: {file: token}, x: {file: token}, Y: opensesame, Z: {}}
  away: {http: {url: https://example.org, allow: [10.0.0.0/33, "fe80::1%eth0", localhost], ca_file: token}}
`, []string{
			`2:21: sources.ftp.http.url: not a web address`,
			`3:22: sources.user.http.url: a user, a query or a fragment`,
			`4:23: sources.query.http.url: a user, a query or a fragment`,
			`5:10: sources.bare.http: url is missing; write the base URL`,
			`9:17: sources.heads.http.headers.a b: "a b" is not a header name`,
			`9:39: sources.heads.http.headers.host: deadman sets Host itself`,
			`9:60: sources.heads.http.headers.Auth: the secret of Auth cannot be sent`,
			`9:98: sources.heads.http.headers.x: X is here twice`,
			`9:119: sources.heads.http.headers.Y: expected a mapping with the fields file, env`,
			`9:131: sources.heads.http.headers.Z: file is missing; name a file`,
			`10:51: sources.away.http.allow[0]: "10.0.0.0/33" is not an address or an address range`,
			`10:64: sources.away.http.allow[1]: "fe80::1%eth0" is not an address or an address range`,
			`10:80: sources.away.http.allow[2]: "localhost" is not an address or an address range`,
			`10:101: sources.away.http.ca_file: `,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := sources.Parse([]byte(c.text), file, os.Getenv)
			if err == nil {
				t.Fatal("it was taken")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(c.wantTexts) {
				t.Errorf("%d problems, want %d:\n%v", len(lines), len(c.wantTexts), err)
			}
			for i, line := range lines {
				if i < len(c.wantTexts) && !strings.Contains(line, ":"+c.wantTexts[i]) {
					t.Errorf("the text is\n%s\nwant\n%s", line, c.wantTexts[i])
				}
				if strings.Contains(line, "sesame") {
					t.Errorf("a secret is shown: %s", line)
				}
			}
		})
	}
}

func TestTooManySources(t *testing.T) {
	var text strings.Builder
	text.WriteString("sources:\n")
	for i := range sources.MaxSources + 1 {
		fmt.Fprintf(&text, "  s%d: {nats: {}}\n", i)
	}
	if _, err := sources.Parse([]byte(text.String()), "sources.yaml", os.Getenv); err == nil || !strings.Contains(err.Error(), "there are 101 sources, and the limit is 100") {
		t.Errorf("%v", err)
	}
}

// The example in the documentation is a valid sources file.
func TestDocumentedFile(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/sources.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("it shows none")
	}
	dir := t.TempDir()
	for _, name := range []string{"shop.url", "catalogue.token"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("ARCHIVE_URL", "secret")
	t.Setenv("CATALOGUE_TENANT", "secret")
	service := httptest.NewTLSServer(nil)
	defer service.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: service.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(dir, "catalogue.pem"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	specs, err := sources.Parse([]byte(text), filepath.Join(dir, "sources.yaml"), os.Getenv)
	if err != nil || len(specs) != 5 || string(specs[2].HTTP.CA) != string(ca) {
		t.Errorf("%+v, %v", specs, err)
	}
}

// FuzzParse checks that no file causes a panic, and that accepted sources have a kind.
func FuzzParse(f *testing.F) {
	f.Add("sources: {a: {postgres: {url_env: HOME, statement_timeout: 1s}, rate: 5}, b: {sqlite: {path: x}}}")
	f.Add("sources:\n  c: {http: {url: http://a, headers: {A: {env: HOME}}, allow: [::1, 10.0.0.0/8]}}\n  d: {nats: {}, open_for: 1s}")
	f.Add("sources: {e: {nats: {url_env: HOME, creds_file: [x]}, http: 7}}")
	f.Fuzz(func(t *testing.T, text string) {
		specs, err := sources.Parse([]byte(text), "sources.yaml", os.Getenv)
		for _, s := range specs {
			if err == nil && (s.Kind() == "" || s.Name == "") {
				t.Errorf("%+v", s)
			}
		}
	})
}
