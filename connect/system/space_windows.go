package system

import "golang.org/x/sys/windows"

// FreeSpace is how many bytes an unprivileged program can still write below path.
func FreeSpace(path string) (free int64, err error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, err
	}
	var n uint64
	err = windows.GetDiskFreeSpaceEx(p, &n, nil, nil)
	return int64(n), err
}
