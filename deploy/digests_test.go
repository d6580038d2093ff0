package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pinFolder has copies of the files that image-digests.sh changes, and a docker whose registry has digests of the images
// in answers alone.
func pinFolder(t *testing.T, answers string) (dir string, pin func() (string, error)) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"compose.yaml", "Dockerfile", "image-digests.sh"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(read(t, name)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	docker := "#!/bin/sh\ncase \"$4\" in\n" + answers + "*) echo \"ERROR: $4: not found\" >&2; exit 1;;\nesac\n"
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(docker), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir, func() (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "image-digests.sh"))
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

// The script pins each image from a registry by its digest, replaces earlier digests, and changes nothing unless the
// registry has all of them.
func TestImagesArePinned(t *testing.T) {
	digestOf := func(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }
	answer := func(digit string) string { return "*:*) echo " + digestOf(digit) + ";;\n" }
	images := regexp.MustCompile(`(?m)^ *(?:image:|FROM) ([a-z]+:\S+)`)
	for name, c := range map[string]struct {
		answers []string // of successive runs
		digit   string   // of the digests at last; empty: not pinned
	}{
		"all":       {[]string{answer("a")}, "a"},
		"again":     {[]string{answer("a"), answer("b")}, "b"},
		"one":       {[]string{"nats:*) echo " + digestOf("a") + ";;\n"}, ""},
		"malformed": {[]string{"*:*) echo latest;;\n"}, ""},
		"outdated":  {[]string{answer("a"), "nats:*) echo " + digestOf("b") + ";;\n"}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, pin := pinFolder(t, c.answers[0])
			out, err := pin()
			if (err == nil) != (c.digit != "") {
				t.Fatalf("%v: %s", err, out)
			}
			for _, next := range c.answers[1:] {
				docker := "#!/bin/sh\ncase \"$4\" in\n" + next + "*) exit 1;;\nesac\n"
				if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(docker), 0o700); err != nil {
					t.Fatal(err)
				}
				out, err = pin()
				if want := strings.HasPrefix(next, "*:*"); (err == nil) != want {
					t.Fatalf("%v: %s", err, out)
				}
			}
			n := 0
			for _, file := range []string{"compose.yaml", "Dockerfile"} {
				text, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				for _, image := range images.FindAllStringSubmatch(string(text), -1) {
					n++
					if !version.MatchString(image[1]) || c.digit != "" != strings.HasSuffix(image[1], "@"+digestOf(c.digit)) {
						t.Errorf("%s has the image %s", file, image[1])
					}
				}
				if c.digit == "" && string(text) != read(t, file) {
					t.Errorf("%s was changed", file)
				}
			}
			if n != 3 {
				t.Errorf("%d images, want postgres, nats and golang", n)
			}
		})
	}
}
