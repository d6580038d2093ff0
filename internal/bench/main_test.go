package bench_test

import (
	"os"
	"testing"

	"deadman/internal/testdisk"
)

func TestMain(m *testing.M) { os.Exit(testdisk.InMemory(m).Run()) }
