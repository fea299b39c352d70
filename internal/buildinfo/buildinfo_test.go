package buildinfo

import (
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/ecrec/ecrec"
)

func TestBestSourceOfVersionAndCommit(t *testing.T) {
	const (
		placeholder = "$Format:%H %cI$"
		commit      = "c1ea34b0c1ea34b0c1ea34b0c1ea34b0c1ea34b0"
	)
	stamp := []debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "false"}}
	dirty := []debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "true"}}
	for _, c := range []struct {
		what, module string
		settings     []debug.BuildSetting
		archived     string
		want         string
	}{
		{"go build in a clone", "v0.0.0-20261123120000-c1ea34b0c1ea", stamp, placeholder, "0.5.0 " + commit},
		{"after a tag", "v0.4.1-0.20261123120000-c1ea34b0c1ea", stamp, placeholder, "0.5.0 " + commit},
		{"with changes", "v0.0.0-20261123120000-c1ea34b0c1ea+dirty", dirty, placeholder, "0.5.0 " + commit + " modified"},
		{"of a tag", "v0.6.0", stamp, placeholder, "0.6.0 " + commit},
		{"of a tag with changes", "v0.6.0+dirty", dirty, placeholder, "0.6.0 " + commit + " modified"},
		{"go install @v0.6.0", "v0.6.0", nil, placeholder, "0.6.0"},
		{"go install @main", "v0.0.0-20261123120000-c1ea34b0c1ea", nil, placeholder, "0.5.0 c1ea34b0c1ea"},
		{"source archive", "(devel)", nil, commit + " 2026-11-23T12:00:00+00:00", "0.5.0 " + commit},
		{"no stamp", "(devel)", nil, placeholder, "0.5.0"},
		{"no build info", "", nil, placeholder, "0.5.0"},
	} {
		build := &debug.BuildInfo{Main: debug.Module{Version: c.module}, Settings: c.settings}
		if got := read(build, "0.5.0", c.archived).String(); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestArchivesHaveTheirTime(t *testing.T) {
	if got := read(&debug.BuildInfo{}, "0.5.0",
		"c1ea34b 2026-11-23T12:00:00+00:00").Time.UTC().String(); got != "2026-11-23 12:00:00 +0000 UTC" {
		t.Error(got)
	}
}

// TestVersionIsOneNumber checks the form that packages, tags and the changelog need.
func TestVersionIsOneNumber(t *testing.T) {
	text, err := os.ReadFile("../../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^\d+\.\d+\.\d+\n$`).Match(text) {
		t.Fatalf("VERSION is %q, want a line like 0.5.0", text)
	}
	recipe, err := os.ReadFile("../../packaging/spack/package.py")
	if err != nil {
		t.Fatal(err)
	}
	if archive := "v" + ecrec.Version() + "/ecrec-" + ecrec.Version() + "-source.tar.gz"; !strings.Contains(string(recipe), archive) {
		t.Errorf("packaging/spack/package.py does not fetch %s", archive)
	}
	if got := Read().String(); !strings.HasPrefix(got, strings.TrimSpace(string(text))) {
		t.Errorf("Read() is %q, VERSION %q", got, text)
	}
}

// TestArchivesAreStamped checks .gitattributes: git archive writes the commit only if it
// marks the file export-subst.
func TestArchivesAreStamped(t *testing.T) {
	text, err := os.ReadFile("../../.gitattributes")
	if err != nil {
		t.Skip("skipped: not a clone: ", err)
	}
	if !strings.Contains(string(text), "internal/buildinfo/commit.txt export-subst") {
		t.Error(".gitattributes does not mark internal/buildinfo/commit.txt export-subst: builds of a source archive would have no commit")
	}
}
