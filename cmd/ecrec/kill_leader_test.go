package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestLeaderLost kills the node of process 0, which leads the voters, in a job started by another
// launcher. Another process becomes the leader.
func TestLeaderLost(t *testing.T) {
	whole, out := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "out")
	sets := []string{"ec.code=xor", "ec.k=4", "job.ranks=5", "train.iterations=80"}
	if r := run(t, ecrec(t), nil, train(golden("dlrm-adagrad"), whole, sets...)...); r.code != 0 {
		t.Fatal(r.stderr)
	}
	var output, errs [5]*strings.Builder
	var all [5]*exec.Cmd
	for p := range all {
		vars := []string{"ECREC_TEST_MARK=" + out, fmt.Sprintf("RANK=%d", p), "WORLD_SIZE=5", "LOCAL_WORLD_SIZE=5",
			"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + strconv.Itoa(1+os.Getpid()%60000)} // on one host a name only
		all[p], output[p], errs[p] = start(ecrec(t), vars, append(train(golden("dlrm-adagrad"), out, sets...), "--chaos", "node:0@40")...)
		if err := all[p].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for p, cmd := range all {
		want := 0
		if p == 0 {
			want = -1 // killed
		}
		if code := exitCode(t, cmd.Wait()); code != want || strings.Contains(output[p].String(), "\ndigest ") != (p == 1) {
			t.Errorf("process %d: exit code %d, stdout %q, stderr %q", p, code, output[p], errs[p])
		}
	}
	(&runningJob{mark: "ECREC_TEST_MARK=" + out}).nothingLeft(t)
	equal(t, "the leader lost", readSummary(t, out), readSummary(t, whole))
}
