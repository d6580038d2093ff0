package doctor

import (
	"path/filepath"

	"golang.org/x/sys/windows"
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
	i.room(folder, free, all, err)
}
