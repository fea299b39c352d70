package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/rowlog"
)

// TestScratchHasNoName: a process that is killed while it evaluates leaves no file behind.
func TestScratchHasNoName(t *testing.T) {
	m, path := newModel(t, rand.New(rand.NewPCG(9, 1))), t.TempDir()
	b := Scratch(env.Real(), path, m.shard)
	defer b.Close()
	slots, rows := []int32{2, 7}, bytes.Repeat([]byte{1, 2, 3, 4}, 2*m.shard.RowBytes()/4)
	for mark := range int64(2) {
		must(t, b.Spill(slots, rows, mark+1))
		if left, err := os.ReadDir(path); err != nil || len(left) > 0 {
			t.Errorf("%v %v are there", err, left)
		}
	}
	got := make([]byte, len(rows))
	if missing, err := b.Read(slots, got, nil); err != nil || len(missing) > 0 || !bytes.Equal(got, rows) {
		t.Errorf("rows %v are missing, %v, or their bytes differ", missing, err)
	}
}

// TestDamagedRows: the error of a row that is damaged in the log names the remedy. A file of an evaluation is no log, and has none.
func TestDamagedRows(t *testing.T) {
	const remedy = "; remove the folder, and resume from a checkpoint"
	damage := fmt.Errorf("a read: %w", &rowlog.Corrupt{File: 1, At: 4096, Err: errors.New("the sum of a row is wrong")})
	full := errors.New("no space left on device")
	for _, c := range []struct {
		err       error
		isScratch bool
		want      bool
	}{{damage, false, true}, {damage, true, false}, {full, false, false}} {
		err := (&Below{path: "dir", isScratch: c.isScratch}).explain(c.err)
		if !errors.Is(err, c.err) || !strings.HasPrefix(err.Error(), "store.path: dir: ") || strings.HasSuffix(err.Error(), remedy) != c.want {
			t.Errorf("%v, scratch %t: %v", c.err, c.isScratch, err)
		}
	}
	if err := (&Below{}).explain(nil); err != nil {
		t.Error(err)
	}
}
