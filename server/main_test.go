package server_test

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"deadman/internal/testdisk"
)

// TestMain runs more tests concurrently than there are processors, as most tests start nodes and wait for them. The flag
// -parallel overrides it.
func TestMain(m *testing.M) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	os.Exit(testdisk.InMemory(m).Run())
}
