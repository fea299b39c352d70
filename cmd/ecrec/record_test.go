package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A loss before the first commit leads back to the start: the digest that is recorded then is that of step 0, so an audit of the run
// finds nothing wrong. An audit does find a summary whose digest is not that of the end.
func TestAuditAfterLossBeforeFirstCommit(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	out := filepath.Join(t.TempDir(), "out")
	args := append(train(golden("dlrm-adagrad"), out, "job.ranks=3", "ec.code=xor", "ec.k=2", "ec.commit_every=12", "job.digests=true", "train.iterations=30"),
		"--np", "3", "--chaos", "kill:1@3")
	if r := run(t, ecrec(t), nil, args...); r.code != 0 {
		t.Fatal(r.stderr)
	}
	events, err := os.ReadFile(filepath.Join(out, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(events), "\n") {
		if strings.Contains(line, `"commit"`) && (strings.Contains(line, `"step":2,`) || strings.Contains(line, `"step":3,`)) {
			t.Errorf("the commit of step 0 is recorded as that of a later step: %s", line)
		}
	}
	if r := run(t, ecrec(t), nil, "audit", out); r.code != 0 {
		t.Fatalf("audit: code %d: %s%s", r.code, r.stdout, r.stderr)
	}
	path := filepath.Join(out, "summary.json")
	summary, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	digest := readSummary(t, out).Digest
	other := strings.Replace(string(summary), digest, strings.Repeat("0", len(digest)), 1)
	if err := os.WriteFile(path, []byte(other), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := run(t, ecrec(t), nil, "audit", out); r.code != 1 || !strings.Contains(r.stderr, "summary.json has digest") {
		t.Errorf("audit with another digest in summary.json: code %d: %s%s", r.code, r.stdout, r.stderr)
	}
}
