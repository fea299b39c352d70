package machine

import (
	"runtime"
	"runtime/debug"
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
