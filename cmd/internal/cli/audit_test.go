package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/zeebo/xxh3"
)

// flipBit is the command flipbit CHECKPOINT FILE OFFSET BIT of scripts: it flips a bit of the byte at OFFSET from the end of a
// file of a checkpoint, and mends the sums in the manifest, so that only the model is wrong.
func flipBit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: flipbit CHECKPOINT FILE OFFSET BIT")
	}
	dir := ts.MkAbs(args[0])
	file := filepath.Join(dir, args[1])
	offset, err := strconv.Atoi(args[2])
	ts.Check(err)
	bit, err := strconv.Atoi(args[3])
	ts.Check(err)
	content, err := os.ReadFile(file)
	ts.Check(err)
	before := xxh3.Hash(content)
	content[len(content)-offset] ^= 1 << bit
	ts.Check(os.WriteFile(file, content, 0o644))

	manifest := filepath.Join(dir, "manifest.json")
	text, err := os.ReadFile(manifest)
	ts.Check(err)
	var e struct {
		Format     uint64
		Checkpoint json.RawMessage
	}
	ts.Check(json.Unmarshal(text, &e))
	was, is := fmt.Appendf(nil, "%016x", before), fmt.Appendf(nil, "%016x", xxh3.Hash(content))
	if bytes.Count(e.Checkpoint, was) != 1 {
		ts.Fatalf("the manifest names the sum %s of %s %d times", was, args[1], bytes.Count(e.Checkpoint, was))
	}
	body := bytes.Replace(e.Checkpoint, was, is, 1)
	ts.Check(os.WriteFile(manifest, fmt.Appendf(nil, "{\n\"format\": %d,\n\"xxh3\": \"%016x\",\n\"checkpoint\": %s\n}\n", e.Format,
		xxh3.HashSeed(body, e.Format), body), 0o644))
}
