package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the batch scripts of examples/slurm anew")

// TestSlurmExamples generates each script of examples/slurm by the command line in its first
// comment.
func TestSlurmExamples(t *testing.T) {
	t.Chdir("../../..")
	files, err := filepath.Glob("examples/slurm/*.sbatch")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, command, found := strings.Cut(string(text), "# Made by: ecrec ")
		if !found {
			t.Errorf("%s: no comment with the command that generates it", file)
			continue
		}
		command, _, _ = strings.Cut(command, "\n")
		var out, errs bytes.Buffer
		if code := Main(strings.Fields(command), &out, &errs); code != exitDone || errs.Len() > 0 {
			t.Errorf("%s: exit code %d: %s", file, code, &errs)
			continue
		}
		if *update {
			err = os.WriteFile(file, out.Bytes(), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		if !*update && !bytes.Equal(out.Bytes(), text) {
			t.Errorf("%s is not what ecrec %s prints now; if the new output is right: go test ./cmd/internal/cli -run SlurmExamples -update", file,
				command)
		}
	}
}
