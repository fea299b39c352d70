package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/ecrec/ecrec/bench"
)

// printed returns the output of a command that must succeed.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	if code := Main(args, &out, &errs); code != exitDone || errs.Len() > 0 {
		t.Fatalf("%v: code %d, stderr %q", args, code, errs.String())
	}
	return out.String()
}

func TestCompletionKnowsCommandsConfigsKeysAndBenchmarks(t *testing.T) {
	for _, c := range []struct{ words, want string }{
		{"doc", "doctor\t"}, {"version --j", "--json\t"}, {"train ../../../examples/q", "../../../examples/quickstart.toml"},
		{"train x.toml --set checkpoint.e", "checkpoint.every="}, {"bench overh", "overhead\t"},
		{"bench train --repeats 2 dev", "device=\t"}, {"bench train steps=5 device=cu", "device=cuda\n"},
		{"inspect ../../../ex", "../../../examples/"},
	} {
		if got := printed(t, append([]string{"__complete", "--"}, strings.Split(c.words, " ")...)...); !strings.HasPrefix(got, c.want) {
			t.Errorf("%q: %q, want %q", c.words, got, c.want)
		}
	}
	if got := printed(t, "__complete", "--", "bench", ""); strings.Count(got, "\n") < len(bench.All()) {
		t.Errorf("benchmarks: %q", got)
	}
	if got := printed(t, "completion", "bash"); !strings.Contains(got, "complete -o") {
		t.Errorf("bash: %q", got)
	}
}

// The man page is generated from the command line, and each part of that has help.
func TestManPageHasEveryCommandAndFlag(t *testing.T) {
	page := printed(t, "man")
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, f := range n.Flags {
			if f.Help == "" && !f.Hidden {
				t.Errorf("%s --%s has no help", n.FullPath(), f.Name)
			}
			if name := `\fB` + strings.ReplaceAll("--"+f.Name, "-", `\-`) + `\fR`; !f.Hidden && f.Name != "help" && !strings.Contains(page, name) {
				t.Errorf("the man page has no %s", name)
			}
		}
		for _, arg := range n.Positional {
			if arg.Help == "" {
				t.Errorf("%s %s has no help", n.FullPath(), arg.Name)
			}
		}
		for _, c := range n.Children {
			if c.Hidden {
				continue
			}
			if c.Help == "" || !strings.Contains(page, strings.ReplaceAll(c.Help, "-", `\-`)) && len(c.Children) == 0 {
				t.Errorf("%s: its help %q is not in the man page", c.FullPath(), c.Help)
			}
			walk(c)
		}
	}
	walk(kong.Must(&root{}, kong.Name("ecrec")).Model.Node)
	file := filepath.Join(t.TempDir(), "ecrec.1")
	if err := os.WriteFile(file, []byte(page), 0o666); err != nil {
		t.Fatal(err)
	}
	lint := exec.Command("man", "--warnings", "-l", file)
	lint.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANPAGER=cat", "MANWIDTH=100")
	var warnings strings.Builder
	lint.Stderr = &warnings
	if err := lint.Run(); errors.Is(err, exec.ErrNotFound) {
		t.Skip("skipped: no man to check the page with")
	} else if err != nil || warnings.Len() > 0 {
		t.Errorf("man --warnings: %v: %s", err, warnings.String())
	}
}
