package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/rowlog"
)

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
