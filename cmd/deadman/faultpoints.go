//go:build faultpoints

package main

import (
	"errors"
	"fmt"
	"os"

	"deadman/internal/failpoints"
)

// Variables of the fault campaign for the nodes that it breaks. They are not settings, and are unset before those are
// read.
const (
	failpointsVariable = "DEADMAN_FAILPOINTS"
	plantVariable      = "DEADMAN_PLANT"
	offsetVariable     = "DEADMAN_CLOCK_OFFSET" // path of a file
)

func init() {
	plan, err := failpoints.Parse(os.Getenv(failpointsVariable))
	err = errors.Join(err, failpoints.EnableBug(failpoints.SeededBug(os.Getenv(plantVariable))))
	failpoints.OffsetBy(os.Getenv(offsetVariable))
	err = errors.Join(err, os.Unsetenv(failpointsVariable), os.Unsetenv(plantVariable), os.Unsetenv(offsetVariable))
	if err != nil {
		fmt.Fprintln(os.Stderr, "deadman:", err)
		os.Exit(2)
	}
	failpoints.Arm(plan)
}
