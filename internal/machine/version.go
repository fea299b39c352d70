package machine

import (
	"runtime"
	"runtime/debug"
	"time"
)

// Version is this binary's version: of its module, or the commit it was built
// from where that is known.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v += " " + s.Value
		}
	}
	if v == "" {
		return "unknown"
	}
	return v
}

// GoVersion is the toolchain that built this binary and what for.
func GoVersion() string { return runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH }

// BuiltFrom is when the commit was made that this binary was built from, where
// that is known.
func BuiltFrom() (time.Time, bool) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return time.Time{}, false
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			t, err := time.Parse(time.RFC3339, s.Value)
			return t, err == nil
		}
	}
	return time.Time{}, false
}
