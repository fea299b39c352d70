package changefiles

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/commit/sinktest"
)

func TestSink(t *testing.T) {
	sinktest.Test(t, sinktest.Config{
		Open:  func(o commit.SinkOptions) (commit.Sink, error) { return To(t.TempDir())(o) },
		Rows:  func(t *testing.T, s commit.Sink) map[int32][]byte { return read(t, s.(*sink).dir) },
		Break: func(s commit.Sink) { s.(*sink).dir = "/nowhere" },
		Replace: func(lost commit.Sink, o commit.SinkOptions) (commit.Sink, error) {
			return To(filepath.Dir(lost.(*sink).root))(o)
		},
	})
}

// read returns the rows of a folder as of its last commit, and those of the folders before it.
func read(t *testing.T, dir string) map[int32][]byte {
	t.Helper()
	rows, root := map[int32][]byte{}, dir[:strings.LastIndex(dir, "-")+1]
	begun, err := strconv.ParseInt(dir[len(root):], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if before, _ := filepath.Glob(filepath.Join(root+"*", setName(begun))); len(before) > 0 {
		rows = read(t, filepath.Dir(before[0]))
	}
	files, err := filepath.Glob(filepath.Join(dir, "step-????????????"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files { // in the order of their steps
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) < 8 {
			continue // no row changed
		}
		n := int(binary.LittleEndian.Uint32(data))
		slots, values := data[4:4+4*n], data[4+4*n:]
		for i := range n {
			width := len(values) / n
			rows[int32(binary.LittleEndian.Uint32(slots[4*i:]))] = values[i*width : (i+1)*width]
		}
	}
	return rows
}
