package machine

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Disk describes the file system of a folder.
type Disk struct {
	Filesystem string `json:"filesystem"` // its type, such as ext4
	Device     string `json:"device"`     // as it is mounted, such as /dev/vda
	Bytes      int64  `json:"bytes"`
	Free       int64  `json:"free_bytes"` // that this user may write
}

// ReadDisk describes the file system of a folder. The type and the device are empty where /proc/self/mountinfo does not name them.
func ReadDisk(dir string) (d Disk, err error) {
	var space unix.Statfs_t
	if err := unix.Statfs(dir, &space); err != nil {
		return d, fmt.Errorf("%s: %w", dir, err)
	}
	d.Bytes, d.Free = int64(space.Blocks)*int64(space.Bsize), int64(space.Bavail)*int64(space.Bsize)
	var file unix.Stat_t
	if err := unix.Stat(dir, &file); err != nil {
		return d, fmt.Errorf("%s: %w", dir, err)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // of Linux alone
	id := fmt.Sprintf("%d:%d", unix.Major(uint64(file.Dev)), unix.Minor(uint64(file.Dev)))
	d.Filesystem, d.Device = findMount(string(mounts), id)
	return d, nil
}

// findMount returns the type and the source of the newest mount of a device in /proc/self/mountinfo. It has lines such as
// "6:27 1 254:0 / / rw,relatime - ext4 /dev/vda rw".
func findMount(mounts, device string) (filesystem, source string) {
	for line := range strings.Lines(mounts) {
		place, what, found := strings.Cut(line, " - ")
		fields, source0 := strings.Fields(place), strings.Fields(what)
		if found && len(fields) > 2 && fields[2] == device && len(source0) > 1 {
			filesystem, source = source0[0], source0[1]
		}
	}
	return filesystem, source
}

// String returns the type, the device and the space: "ext4 (/dev/vda, 252 GiB, 11.2 GiB free)".
func (d Disk) String() string {
	name := d.Filesystem
	if name == "" {
		name = "an unknown file system"
	}
	device := ""
	if d.Device != "" && d.Device != d.Filesystem {
		device = d.Device + ", "
	}
	return fmt.Sprintf("%s (%s%s, %s free)", name, device, Size(d.Bytes), Size(d.Free))
}

// ReadLoadAverage returns the numbers of processes that ran or were ready to run, as means of the last 1, 5 and 15 minutes. ok is
// false where the system does not report them.
func ReadLoadAverage() (load [3]float64, ok bool) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return load, false
	}
	return parseLoadAverage(string(text))
}

func parseLoadAverage(text string) (load [3]float64, ok bool) {
	fields := strings.Fields(text)
	if len(fields) < len(load) {
		return load, false
	}
	for i := range load {
		n, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return load, false
		}
		load[i] = n
	}
	return load, true
}
