package ui_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"deadman/internal/testdisk"
)

// within bounds every wait for an event.
const within = 2 * time.Minute

// browser is a Chromium shared by all tests, because its start takes seconds.
var browser = sync.OnceValues(func() (context.Context, error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, fmt.Errorf("the pages are tested in Chromium, and there is none; internal/tools/needs chromium installs it: %w", err)
	}
	// The browser ends after the tests, and its profile with it: see TestMain.
	profile, err := os.MkdirTemp(testdisk.Disk(), "deadman-chromium")
	if err != nil {
		return nil, err
	}
	closers = append(closers, func() { _ = os.RemoveAll(profile) })
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.Headless, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoSandbox,
	}
	// Chromium leaves a folder in TMPDIR.
	options = append(options, chromedp.Env("TMPDIR="+profile))
	// A process in reserve for each next page would be started in vain.
	options = append(options, chromedp.Flag("disable-features", "SpareRendererForSitePerProcess"))
	for _, flag := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	closers = append(closers, end)
	ctx, quit := chromedp.NewContext(allocator)
	closers = append(closers, quit)
	return ctx, chromedp.Do(ctx)
})

// closers run in reverse order after all tests.
var closers []func()

func TestMain(m *testing.M) {
	if err := selectSample(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := testdisk.InMemory(m).Run()
	for i := len(closers) - 1; i >= 0; i-- {
		closers[i]()
	}
	os.Exit(code)
}

// tab is a browser tab on a node. Console errors and requests to other hosts fail the test.
type tab struct {
	*testing.T
	ctx  context.Context
	home string

	allowedStatus string // expected error status that Chromium reports
	stopped       bool   // the node is stopped: requests fail
	otherSite     string // another site that the test visits; empty: none

	mu   sync.Mutex
	errs []string
}

// open opens a tab with a size, in a window and a browser context of its own: tests in parallel share no cookies, and
// each tab is visible and has the focus.
func open(t *testing.T, home string, width, height int64) *tab {
	t.Helper()
	parent, err := browser()
	if err != nil {
		t.Fatal(err)
	}
	ctx, closeTab := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	t.Cleanup(closeTab)
	b := &tab{T: t, ctx: ctx, home: home}
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as the context that opens it
		t.Fatal(err)
	}
	b.do(chromedp.EmulateViewport(width, height))
	command(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	go func() {
		for m, err := range chromedp.Console(ctx) {
			if err != nil {
				return
			}
			b.recordError(m.String())
		}
	}()
	requests := chromedp.Events(ctx, network.RequestWillBeSent)
	go func() {
		for r, err := range requests {
			if err != nil {
				return
			}
			if !strings.HasPrefix(r.Request.URL, home) && !strings.HasPrefix(r.Request.URL, "data:") {
				b.recordError("it loads " + r.Request.URL)
			}
		}
	}()
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, w := range b.errs {
			if b.stopped && (strings.Contains(w, "net::ERR_CONNECTION_") || strings.Contains(w, "Failed to fetch")) {
				continue
			}
			if b.allowedStatus != "" && strings.Contains(w, "status of "+b.allowedStatus) || b.otherSite != "" && strings.HasPrefix(w, "it loads "+b.otherSite+"/") {
				continue
			}
			t.Errorf("the page: %s", w)
		}
	})
	return b
}

func (b *tab) recordError(of string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errs = append(b.errs, of)
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.Fatalf("%v\n%s", err, b.text())
	}
}

// resize changes the size of the tab.
func (b *tab) resize(width, height int64) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// visit opens a page of the node.
func (b *tab) visit(path string) {
	b.Helper()
	startedAt := time.Now()
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(b.home+path)); err != nil {
		b.Fatalf("%s does not come within %v: %v\n%s\n%s", path, time.Since(startedAt).Round(time.Second), err, b.text(), b.state())
	}
}

// setDarkMode switches between dark and light colors.
func (b *tab) setDarkMode(is bool) {
	b.Helper()
	scheme := "light"
	if is {
		scheme = "dark"
	}
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// command sends a command of the DevTools protocol to a tab.
func command[P any](b *tab, c cdp.Command[P, cdp.Empty], params P) {
	b.Helper()
	b.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, c, params)
		return chromedp.Void{}, err
	})
}

// evaluate returns the result of a script on the page.
func evaluate[T any](b *tab, script string) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%.300s: %v", script, err)
	}
	return v
}

// text returns the visible text of the page.
func (b *tab) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body ? document.body.innerText : ""`))
	if err != nil {
		return err.Error()
	}
	return text
}

// waitForText waits until the page shows all of the texts.
func (b *tab) waitForText(all ...string) {
	b.Helper()
	for _, want := range all {
		for deadline := time.Now().Add(within); !strings.Contains(b.text(), want); {
			if time.Now().After(deadline) {
				b.Fatalf("the page does not show %q:\n%s\n%s", want, b.text(), b.state())
			}
			pausePoll(b.ctx)
		}
	}
}

// state returns the node's state for the message of a failure.
func (b *tab) state() (all string) {
	for _, path := range []string{"/readyz", "/api/v1/streams", "/api/v1/nodes", "/api/v1/jobs?limit=5"} {
		r, err := http.NewRequestWithContext(b.ctx, http.MethodGet, b.home+path, nil)
		if err != nil {
			return err.Error()
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return all + err.Error()
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		all += fmt.Sprintf("%s: %s %v\n", path, text, err)
	}
	return all
}

// pausePoll pauses between two polls of a page.
func pausePoll(ctx context.Context) {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// click clicks the element of a selector and waits for the next page.
func (b *tab) click(selector string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		b.Fatalf("click %s: %v\n%s", selector, err, b.text())
	}
}

// screenshot saves a screenshot of the whole page if DEADMAN_SHOTS names a folder.
func (b *tab) screenshot(name string) {
	b.Helper()
	folder := os.Getenv("DEADMAN_SHOTS")
	if folder == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// axe returns the source of axe-core, a checker for accessibility.
var axe = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "deadman-axe")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join("axe", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), text, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	install := exec.Command("npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts")
	install.Dir = folder
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w (internal/tools/needs node installs what it takes)\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(folder, "node_modules", "axe-core", "axe.min.js"))
	return string(text), err
})

// violation is an accessibility violation.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML string }
}

// runAxe checks a page. Axe throws a TypeError if a part of the page is replaced during its run, as previews are; it runs
// again then.
const runAxe = `(async () => {
	for (let runs = 1; ; runs++) {
		try {
			return (await axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})).violations;
		} catch (e) {
			if (runs === 5 || !(e instanceof TypeError)) throw e;
		}
	}
})()`

// checkAccessibility checks that the current page has no accessibility violations.
func (b *tab) checkAccessibility(name string) {
	b.Helper()
	source, err := axe()
	if err != nil {
		b.Fatal(err)
	}
	evaluate[any](b, source+";0")
	for _, found := range evaluate[[]violation](b, runAxe) {
		b.Errorf("%s: %s (%s, %s): %v", name, found.Help, found.ID, found.Impact, found.Nodes)
	}
}
