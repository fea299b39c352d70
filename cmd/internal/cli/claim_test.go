package cli

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"testing"

	"github.com/ecrec/ecrec/launcher/place"
)

// Process 0 creates the numbered folder and waits there for the others. A process that starts
// later uses the same folder, and a process of another job does not.
func TestNumberedWhereProcess0Waits(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "run.toml")
	text := "[data]\nformat = \"synthetic\"\n[model]\nembedding_dim = 4\ntables = [40]\nbottom_mlp = [8, 4]\ntop_mlp = [8, 1]\n[train]\nglobal_batch = 64\niterations = 1\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "runs", "run")
	h := fnv.New64a()
	h.Write([]byte("ci.7.0"))
	for _, f := range []string{out + "/summary.json", fmt.Sprintf("%s-2/.rendezvous-%016x", out, h.Sum64())} {
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[string]string{"ci.7.0": out + "-2", "ci.8.0": out + "-3"} {
		c := &trainCmd{outFlags: outFlags{Numbered: true}}
		c.Config = file
		place := place.Place{Process: 1, Processes: 2, From: "Slurm", Rendezvous: place.Rendezvous{Network: "shared", Address: key}}
		cfg, err := c.loadAt(&place, false)
		if err != nil {
			t.Fatal(err)
		}
		if cfg, err = c.claimNumbered(&app{}, cfg, place, false); err != nil || cfg.Job.Out != want {
			t.Errorf("job %s: %v, %v, want %s", key, cfg.Job.Out, err, want)
		}
	}
}
