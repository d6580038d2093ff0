// The command licenses writes the licenses and notices of all third-party software in the binary to
// cmd/deadman/licenses.txt. With -check it changes nothing and fails if the file is not up to date.
//
//	go run ./internal/tools/licenses [-check]
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// file is the result, below the root of the project.
const file = "cmd/deadman/licenses.txt"

// systems are the operating systems of released binaries. Each links its own modules.
var systems = []string{"linux", "darwin", "windows"}

// legal matches the names of files that a license requires to be reproduced.
var legal = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|patents)`)

func main() {
	check := flag.Bool("check", false, "change nothing, and fail if the file is not up to date")
	flag.Parse()
	if err := run(context.Background(), *check); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, check bool) error {
	software, err := embedded(ctx)
	if err != nil {
		return err
	}
	want, err := document(software)
	if err != nil {
		return err
	}
	if !check {
		return os.WriteFile(file, want, 0o600)
	}
	got, err := os.ReadFile(file)
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("%s is not up to date; go run ./internal/tools/licenses writes it", file)
	}
	return err
}

// component is third-party software with the folder of its license.
type component struct {
	name string // with the version
	dir  string
}

// embedded returns the software in the binary: Go, the modules that the program links, and the scripts of the pages.
func embedded(ctx context.Context) ([]component, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	all := []component{{"the Go standard library", strings.TrimSpace(string(root))}}
	for _, system := range systems {
		list := exec.CommandContext(ctx, "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/deadman")
		list.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w", system, err)
		}
		for line := range strings.Lines(string(out)) {
			if name, dir, found := strings.Cut(strings.TrimSpace(line), "\t"); found {
				all = append(all, component{name, dir})
			}
		}
	}
	scripts, err := filepath.Glob("web/static/vendor/*")
	if err != nil || len(scripts) == 0 {
		return nil, errors.Join(errors.New("web/static/vendor has no scripts; run the command in the root of the project"), err)
	}
	for _, dir := range scripts {
		all = append(all, component{strings.Replace(filepath.Base(dir), "@", " ", 1), dir})
	}
	slices.SortFunc(all, func(a, b component) int { return cmp.Compare(a.name, b.name) })
	return slices.Compact(all), nil
}

// document returns the text: each license once, after the names of the software under it.
func document(software []component) ([]byte, error) {
	under := make(map[string][]string) // names by text
	for _, c := range software {
		texts, err := c.texts()
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			under[text] = append(under[text], c.name)
		}
	}
	texts := make([]string, 0, len(under))
	for text := range under {
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b string) int { return cmp.Or(cmp.Compare(under[a][0], under[b][0]), cmp.Compare(a, b)) })
	var out bytes.Buffer
	out.WriteString("deadman contains the following third-party software.\n")
	line := strings.Repeat("=", 80)
	for _, text := range texts {
		fmt.Fprintf(&out, "\n%s\n%s\n%s\n\n%s\n", line, strings.Join(under[text], "\n"), line, text)
	}
	return out.Bytes(), nil
}

// texts returns the license and the notices of a component.
func (c component) texts() ([]string, error) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	var texts []string
	for _, e := range entries {
		if e.IsDir() || !legal.MatchString(e.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(c.dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		lines := strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
		for i := range lines {
			lines[i] = strings.TrimRight(lines[i], " \t\f")
		}
		texts = append(texts, strings.Trim(strings.Join(lines, "\n"), "\n"))
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("%s has no file with a license in %s", c.name, c.dir)
	}
	return texts, nil
}
