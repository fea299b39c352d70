package clicks_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/data/formattest"
	"github.com/ecrec/ecrec/examples/extend/clicks"
)

func TestMain(m *testing.M) {
	data.Formats = append(data.Formats, clicks.Format)
	m.Run()
}

func TestFormat(t *testing.T) {
	formattest.Run(t, formattest.Suite{
		Options:  data.Options{Format: "clicks", Tables: []int64{1000, 3, 70}},
		Write:    write,
		NeverBad: true, // any byte is a label
	})
}

func write(t *testing.T, path string, samples []formattest.Sample) {
	t.Helper()
	var records []byte
	for _, x := range samples {
		records = append(records, byte(x.Label))
		for _, v := range x.Dense {
			records = binary.LittleEndian.AppendUint32(records, uint32(v))
		}
		for _, id := range x.IDs {
			records = binary.LittleEndian.AppendUint32(records, id)
		}
	}
	if err := os.WriteFile(path, records, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestConfig loads a config that names the format.
func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.toml")
	text := `
data = {format = "clicks", train = ["a.clicks"]}
model = {embedding_dim = 4, tables = [10, 20], bottom_mlp = [4], top_mlp = [1]}
train = {global_batch = 8, epochs = 1}
`
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := c.Data.DenseCount(); n != 2 {
		t.Errorf("%d numbers a sample, want 2", n)
	}
}
