package doctor

import (
	"fmt"
	"path/filepath"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/windows"
)

// The room of a disk below which a node is in danger.
const (
	minFreeShare = 0.1
	minFreeBytes = 1 << 30
)

// machine checks the disk of the data folder. Windows does not limit the number of open files.
func machine(i *inspection) {
	if i.DatabaseURL != "" && i.NATSURL != "" {
		return
	}
	folder, err := filepath.Abs(i.DataDir)
	var free, all uint64
	if err == nil {
		var root *uint16
		if root, err = windows.UTF16PtrFromString(filepath.VolumeName(folder) + `\`); err == nil {
			err = windows.GetDiskFreeSpaceEx(root, &free, &all, nil)
		}
	}
	switch {
	case err != nil:
		i.problem("disk", Unknown, fmt.Sprintf("%s: %v", folder, err), "let the user read the disk of the data folder")
	case free < minFreeBytes || float64(free) < minFreeShare*float64(all):
		i.problem("disk", Warning, fmt.Sprintf("%s of %s are free for %s", humanize.IBytes(free), humanize.IBytes(all), folder),
			"free space, or shorten DEADMAN_KEEP_HISTORY; without space nothing is ingested")
	default:
		i.ok("disk", "%s of %s are free for %s", humanize.IBytes(free), humanize.IBytes(all), folder)
	}
}
