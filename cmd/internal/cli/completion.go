package cli

import (
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/ecrec/ecrec/bench"
	"github.com/ecrec/ecrec/cmd/internal/complete"
	"github.com/ecrec/ecrec/cmd/internal/manpage"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/buildinfo"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Run prints the script.
func (c *completionCmd) Run(a *app) error {
	_, err := io.WriteString(a.out, complete.Script(c.Shell))
	return err
}

// completeCmd is the command that the completion scripts call.
type completeCmd struct {
	Words []string `arg:"" optional:""`
}

// Run prints the completions of the last word.
func (c *completeCmd) Run(a *app, ctx *kong.Context) error {
	return complete.Write(a.out, complete.Candidates(ctx.Model.Node, c.Words, completions()))
}

// completions returns the sources that tags complete:"NAME" of flags and arguments name.
func completions() map[string]complete.Source {
	var benches, keys []complete.Candidate
	for _, b := range bench.All() {
		benches = append(benches, complete.Candidate{Text: b.Name, Help: b.Doc})
	}
	benches = append(benches, complete.Candidate{Text: "list", Help: "Lists the benchmarks."})
	for _, k := range config.Keys() {
		keys = append(keys, complete.Candidate{Text: k + "="})
	}
	return map[string]complete.Source{
		"config": complete.Files(".toml"), "dir": complete.Folders, "model": complete.Files(".safetensors"),
		"bench": complete.Fixed(benches), "key": complete.Fixed(keys), "setting": settingsOf,
	}
}

// settingsOf lists the settings of the benchmark that the first argument names: the keys, and
// the values of those that have few.
func settingsOf(args []string, prefix string) []complete.Candidate {
	b, err := bench.Find(args[0])
	if err != nil {
		return nil
	}
	var all []complete.Candidate
	for _, s := range b.Settings {
		all = append(all, complete.Candidate{Text: s.Name + "=", Help: s.Doc})
		for _, value := range s.Values {
			if strings.HasPrefix(prefix, s.Name+"=") {
				all = append(all, complete.Candidate{Text: s.Name + "=" + value})
			}
		}
	}
	return complete.Fixed(all)(args, prefix)
}

// manCmd prints the man page, for packages.
type manCmd struct{}

// Run prints the page in roff.
func (c *manCmd) Run(a *app, ctx *kong.Context) error {
	b := buildinfo.Read()
	return manpage.Write(a.out, ctx.Model, manpage.About{Version: b.Version, Date: b.Time, Notes: manNotes})
}
