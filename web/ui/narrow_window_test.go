package ui_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"deadman/internal/longtest"
)

// TestNarrowWindow checks that a narrow window shows the whole navigation, and that the actions cover no row before a
// job is chosen. Then they take one line at the bottom.
func TestNarrowWindow(t *testing.T) {
	longtest.Only(t, "it measures the layout")
	t.Parallel()
	home := serve(t, orders)
	ids := make([]string, 24)
	for i := range ids {
		ids[i] = fmt.Sprintf("order-%02d", i)
	}
	publishEvents(t, home, "orders.created", ids...)
	waitForOpenAlerts(t, home, len(ids))
	b := open(t, home, 400, 800)
	for _, dark := range []bool{false, true} {
		b.setDarkMode(dark)
		b.visit("/jobs")
		name := fmt.Sprintf("narrow-%v", map[bool]string{true: "dark", false: "light"}[dark])
		b.screenshotVisible(name)
		if unseen := evaluate[int](b, `[...document.querySelectorAll("header nav a")].filter((a) => { const at = a.getBoundingClientRect();
			return at.right > innerWidth || document.elementFromPoint(at.left + at.width / 2, at.top + at.height / 2) !== a; }).length`); unseen > 0 {
			t.Errorf("%d pages of the navigation are not seen", unseen)
		}
		if evaluate[bool](b, `document.querySelector(".actions").getBoundingClientRect().top < innerHeight`) {
			t.Error("the actions cover the rows, and no row is selected")
		}
		b.do(chromedp.Click(chromedp.CSS(`input[aria-label="Select order order-00"]`)))
		if evaluate[bool](b, `(() => { const at = document.querySelector(".actions").getBoundingClientRect(); return at.bottom > innerHeight + 1 || at.height > 60; })()`) {
			t.Error("the actions for the selected rows are out of sight, or take more than a line")
		}
		b.screenshotVisible(name + "-chosen")
		b.checkAccessibility(name)
	}
	b.visit("/")
	b.screenshotVisible("narrow-now")
	b.visit("/nope")
	b.allowedStatus = "404"
	b.screenshotVisible("narrow-nope")
}

// screenshotVisible saves a screenshot of the visible part of the page if DEADMAN_SHOTS names a folder.
func (b *tab) screenshotVisible(name string) {
	b.Helper()
	folder := os.Getenv("DEADMAN_SHOTS")
	if folder == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
}
