package ha_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// password is that of the users of the database.
const password = "secret"

// files are the files of deploy/ha, with the addresses of this machine instead of those of three.
type files struct {
	b         *bed
	addresses map[string]string // by that in deploy/ha
}

// newFiles chooses the addresses.
func newFiles(b *bed) files {
	f := files{b, map[string]string{}}
	for i := range members {
		for _, port := range []int{2379, 2380, 5432, 8008, 4222, 6222} {
			f.addresses[fmt.Sprintf("10.0.0.%d:%d", i+1, port)] = b.port()
		}
	}
	f.addresses["127.0.0.1:5000"], f.addresses["127.0.0.1:6432"] = b.port(), b.port()
	return f
}

// at returns the address here for one of deploy/ha.
func (f files) at(address string) string { return f.addresses[address] }

// portOf returns the port of an address.
func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// write writes a file of deploy/ha for a server, by name, into a folder of that name, and returns its path.
func (f files) write(name, file string) string {
	f.b.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "ha", file))
	if err != nil {
		f.b.Fatal(err)
	}
	dir := filepath.Join(f.b.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.b.Fatal(err)
	}
	path := filepath.Join(dir, file)
	if err := os.WriteFile(path, []byte(f.localize(name, dir, string(text))), 0o644); err != nil { //nolint:gosec // another account reads it
		f.b.Fatal(err)
	}
	return path
}

// localize replaces the first machine of a text by that of the server, addresses, and folders.
func (f files) localize(name, dir, text string) string {
	if number := name[len(name)-1:]; strings.HasPrefix(name, "pg") && name != "pgbouncer" || strings.HasPrefix(name, "nats") {
		own := []string{"ETCD_INITIAL_CLUSTER=", "hosts: ", "nats://"} // these lines name all machines
		var lines []string
		for line := range strings.Lines(text) {
			if !containsAny(line, own) {
				line = strings.NewReplacer("10.0.0.1:", "10.0.0."+number+":", "name: pg1", "name: pg"+number,
					"NAME=pg1", "NAME=pg"+number, "server_name: nats1", "server_name: nats"+number).Replace(line)
			}
			lines = append(lines, line)
		}
		text = strings.Join(lines, "")
	}
	pairs := []string{
		"10.0.0.0/24", "127.0.0.1/32",
		"listen_port = 6432", "listen_port = " + portOf(f.at("127.0.0.1:6432")), "port=5000", "port=" + portOf(f.at("127.0.0.1:5000")),
		"[pgbouncer]", "deadman_sessions = host=127.0.0.1 port=" + portOf(f.at("127.0.0.1:5000")) + " dbname=deadman pool_mode=session\n\n[pgbouncer]",
		"/etc/pgbouncer", dir, "/var/log/postgresql", dir, "/var/run/postgresql", dir, "/var/lib/etcd/deadman", dir + "/etcd", "/var/lib/nats", dir + "/store",
		"/var/lib/postgresql/15/deadman", dir + "/data", "/var/lib/postgresql", dir,
	}
	for i := range members {
		server, api := fmt.Sprintf("10.0.0.%d:5432", i+1), fmt.Sprintf("10.0.0.%d:8008", i+1)
		pairs = append(pairs, server+" check port 8008", f.at(server)+" check port "+portOf(f.at(api)))
		if len(f.b.pg) > i { // the others replicate over a link that can be cut
			pairs = append(pairs, "connect_address: "+server, "connect_address: "+f.b.pg[i].link.Listen)
		}
	}
	for from, to := range f.addresses {
		pairs = append(pairs, from, to)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

func containsAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// own gives the folder of a server, with its files, to the account of the servers that refuse to run as root.
func (f files) own(name string) {
	f.b.Helper()
	as, err := unprivileged()
	if err != nil {
		f.b.Fatal(err)
	}
	if as == nil {
		return
	}
	err = filepath.WalkDir(filepath.Join(f.b.dir, name), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, int(as.Uid), int(as.Gid))
	})
	if err != nil {
		f.b.Fatal(err)
	}
}

// request sends a request, with JSON unless the body is empty, and returns the answer. Another status than 2xx is an error.
func request(ctx context.Context, method, url, body string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, url, answer.Status, text)
	}
	return string(text), err
}
