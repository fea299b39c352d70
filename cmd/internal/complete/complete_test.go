package complete

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// line is a command line with every kind of word.
type line struct {
	Train struct {
		Config string   `arg:"" complete:"config"`
		Set    []string `sep:"none" complete:"key"`
		Device string   `placeholder:"auto|cpu|cuda" help:"Where."`
		Resume string   `placeholder:"auto|DIR"`
		To     string   `placeholder:"FILE|DIR"`
		Quiet  bool
		Hide   bool `hidden:""`
	} `cmd:"" help:"Trains."`
	Data struct {
		Synth struct{} `cmd:""`
		Stats struct {
			Files []string `arg:"" complete:"config"`
		} `cmd:""`
	} `cmd:""`
	Completion struct {
		Shell string `arg:"" enum:"bash,zsh"`
	} `cmd:""`
	Secret struct{} `cmd:"" hidden:""`
}

func TestCandidates(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"runs/a", ".git"} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"run.toml", "run.csv", "runs/b.toml"} {
		if err := os.WriteFile(f, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	root := kong.Must(&line{}).Model.Node
	sources := map[string]Source{"config": Files(".toml"), "key": Fixed([]Candidate{{"ec.code=", ""}, {"ec.k=", ""}, {"job.out=", ""}})}
	for _, c := range []struct{ words, want string }{
		{"", "train data completion"},
		{"t", "train"},
		{"sec", ""},
		{"data ", "synth stats"},
		{"data stats a.toml ru", "run.toml runs/"},
		{"completion ", "bash zsh"},
		{"completion bash ", ""},
		{"train ", "run.toml runs/"},
		{"train runs/", "runs/a/ runs/b.toml"},
		{"train none/", ""},
		{"train --", "--help --set --device --resume --to --quiet"},
		{"train --hi", ""},
		{"train --device ", "auto cpu cuda"},
		{"train --device=c", "--device=cpu --device=cuda"},
		{"train --none=c", ""},
		{"train --device cpu r", "run.toml runs/"},
		{"train --quiet r", "run.toml runs/"},
		{"train --set ec.", "ec.code= ec.k="},
		{"train --set=ec.c", "--set=ec.code="},
		{"train --resume ", "runs/ auto"},
		{"train --to ", ""},
		{"train run.toml ", ""},
		{"train -- r", "run.toml runs/"},
	} {
		var got []string
		for _, found := range Candidates(root, strings.Split(c.words, " "), sources) {
			got = append(got, found.Text)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%q: %q, want %q", c.words, text, c.want)
		}
	}
	if found := Candidates(root, nil, nil); len(found) != 3 || found[0] != (Candidate{"train", "Trains."}) {
		t.Errorf("no words: %q", found)
	}
}

// TestScripts runs each shell's script with a stand-in for ecrec, which records its arguments and
// prints completions.
func TestScripts(t *testing.T) {
	dir := t.TempDir()
	program := "#!/bin/sh\nprintf '%s|' \"$@\" >" + dir + "/asked\nprintf 'ec.code=\\tThe code.\\nec.k=\\n'\n"
	if err := os.WriteFile(filepath.Join(dir, "ecrec"), []byte(program), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, shell := range Shells {
		if err := os.WriteFile(filepath.Join(dir, "_ecrec."+shell), []byte(Script(shell)), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		shell, script string
		want          []string
	}{
		{"bash", `. ./_ecrec.bash; COMP_LINE='ecrec train --set ec.'; COMP_POINT=${#COMP_LINE} COMP_WORDS=(ecrec train --set ec.) COMP_CWORD=3
			_ecrec; printf '%s\n' "${COMPREPLY[@]}"`, []string{"ec.code=", "ec.k="}},
		{"bash", `. ./_ecrec.bash; COMP_LINE='ecrec train --set=ec.'; COMP_POINT=${#COMP_LINE} COMP_WORDS=(ecrec train --set = ec.) COMP_CWORD=4
			_ecrec; printf '%s\n' "${COMPREPLY[@]}"`, []string{"ec.code=", "ec.k="}},
		{"fish", `source ./_ecrec.fish; complete -C 'ecrec train --set ec.'`, []string{"ec.code=\tThe code.", "ec.k="}},
		{"zsh", `compdef() {}; _describe() { print -l -- "${(@P)2}" }; _files() { print none }; source ./_ecrec.zsh
			words=(ecrec train --set ec.) CURRENT=4; _ecrec`, []string{"ec.code=:The code.", "ec.k="}},
	} {
		t.Run(c.shell, func(t *testing.T) {
			if _, err := exec.LookPath(c.shell); err != nil {
				t.Skip("skipped: ", err)
			}
			cmd := exec.Command(c.shell, "-c", c.script)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got := strings.Split(strings.TrimSpace(string(out)), "\n"); !slices.Equal(got, c.want) {
				t.Errorf("%s: %q, want %q", c.script, got, c.want)
			}
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			if err != nil || !strings.HasPrefix(string(asked), "__complete|--|train|--set") || !strings.HasSuffix(string(asked), "ec.|") {
				t.Errorf("the program was asked %q (%v)", asked, err)
			}
		})
	}
}

// A group's default command takes arguments and flags without its name.
func TestDefaultCommands(t *testing.T) {
	var l struct {
		Bench struct {
			Run struct {
				Name  string `arg:"" enum:"cache,load"`
				Count int
			} `cmd:"" default:"withargs"`
			Report struct {
				Out string
			} `cmd:""`
		} `cmd:""`
	}
	root := kong.Must(&l).Model.Node
	for words, want := range map[string]string{"bench ": "report cache load", "bench l": "load", "bench load --": "--count", "bench --": "--count",
		"bench report --": "--out", "bench --count 3 l": "load"} {
		var got []string
		for _, found := range Candidates(root, strings.Split(words, " "), nil) {
			if found.Text != "--help" {
				got = append(got, found.Text)
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%q: %q, want %q", words, text, want)
		}
	}
}
