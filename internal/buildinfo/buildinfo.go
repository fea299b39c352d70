package buildinfo

import (
	_ "embed"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/ecrec/ecrec"
)

// Info describes a build. Unknown fields are empty.
type Info struct {
	Version  string    `json:"version"`       // 0.5.0
	Commit   string    `json:"commit"`        // in hex; shorter if a pseudo-version names it
	Modified bool      `json:"modified"`      // the work tree had uncommitted changes
	Time     time.Time `json:"time,omitzero"` // of the commit
	Go       string    `json:"go"`            // go1.25.1
	OS       string    `json:"os"`
	Arch     string    `json:"arch"`
	CGO      bool      `json:"cgo"`
	Tags     string    `json:"tags"` // of the build
}

// archived is the commit of a source archive and its time: git archive replaces the placeholder.
//
//go:embed commit.txt
var archived string

// Read returns this program's record of its build.
var Read = sync.OnceValue(func() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return read(build, ecrec.Version(), strings.TrimSpace(archived))
})

// pseudo matches the end of the version that Go gives to a commit without a tag.
var pseudo = regexp.MustCompile(`[-.]\d{14}-([0-9a-f]{12})(\+dirty)?$`)

func read(build *debug.BuildInfo, version, archived string) Info {
	info := Info{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value
		case "vcs.modified":
			info.Modified = s.Value == "true"
		case "vcs.time":
			info.Time, _ = time.Parse(time.RFC3339, s.Value) // zero if it does not parse
		case "CGO_ENABLED":
			info.CGO = s.Value == "1"
		case "-tags":
			info.Tags = s.Value
		}
	}
	module := build.Main.Version
	made := pseudo.FindStringSubmatch(module)
	if made == nil && strings.HasPrefix(module, "v") {
		info.Version = strings.TrimSuffix(strings.TrimPrefix(module, "v"), "+dirty")
	}
	switch {
	case info.Commit != "":
	case made != nil:
		info.Commit = made[1]
	case !strings.HasPrefix(archived, "$"):
		commit, made, _ := strings.Cut(archived, " ")
		info.Commit = commit
		info.Time, _ = time.Parse(time.RFC3339, made) // zero if it does not parse
	}
	return info
}

// String returns the version and the commit on one line, as in "0.5.0 c1ea34b... modified".
func (i Info) String() string {
	s := i.Version
	if i.Commit != "" {
		s += " " + i.Commit
	}
	if i.Modified {
		s += " modified"
	}
	return s
}

// Toolchain returns the Go version and the platform of the build: "go1.25.1 linux/amd64".
func (i Info) Toolchain() string { return i.Go + " " + i.OS + "/" + i.Arch }
