package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/internal/safetensors"
)

// format is the version of the format that this code writes. It reads this one
// and older ones.
const format = 1

const (
	manifestFile = "manifest.json"
	denseFile    = "dense.safetensors"
	historyFile  = "history.bin"
)

func rowsFile(rank int) string { return fmt.Sprintf("rows-%05d.safetensors", rank) }

// Manifest is what a checkpoint says about itself.
type Manifest struct {
	Step  int64 `json:"step"`
	Ranks int   `json:"ranks"` // that wrote it
	// Digest is the model's where the trainer had it; to take one costs more than to
	// save.
	Digest string `json:"digest,omitempty"`
	Model  Model  `json:"model"`
	// Files are the row files in the order of ranks, the dense file, the history.
	Files []File `json:"files"`
}

// File is one file of a checkpoint.
type File struct {
	Name  string `json:"name"`
	Rows  int64  `json:"rows,omitempty"` // touched rows of a row file
	Bytes int64  `json:"bytes"`
	XXH3  string `json:"xxh3"`
}

func sumText(sum uint64) string { return fmt.Sprintf("%016x", sum) }

// envelope is manifest.json. Format and sum come first and will stay, so that
// every version can tell a newer one from a damaged one.
type envelope struct {
	Format     int             `json:"format"`
	XXH3       string          `json:"xxh3"` // of the bytes of Checkpoint, seeded with Format
	Checkpoint json.RawMessage `json:"checkpoint"`
}

func (m *Manifest) encode() ([]byte, error) {
	body, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, err
	}
	return envelope{format, sumText(xxh3.HashSeed(body, format)), body}.encode(), nil
}

// encode is the whole file.
func (e envelope) encode() []byte {
	return fmt.Appendf(nil, "{\n\"format\": %d,\n\"xxh3\": \"%s\",\n\"checkpoint\": %s\n}\n", e.Format, e.XXH3, e.Checkpoint)
}

// errNewer is a manifest of a later format, undamaged.
type errNewer int

func (e errNewer) Error() string { return "format " + strconv.Itoa(int(e)) }

// parseManifest reads manifest.json and checks all that can be checked without
// the other files.
func parseManifest(b []byte) (*Manifest, error) {
	var e envelope
	if err := decode(b, &e); err != nil {
		return nil, err
	}
	if want := sumText(xxh3.HashSeed(e.Checkpoint, uint64(e.Format))); e.XXH3 != want {
		return nil, fmt.Errorf("its sum is %s, that of its content %s", e.XXH3, want)
	}
	if e.Format > format {
		return nil, errNewer(e.Format)
	}
	if !bytes.Equal(b, e.encode()) { // the sum is not of these bytes, and JSON takes "Format" for "format"
		return nil, errors.New("not as it was written: damaged around its content")
	}
	var m Manifest
	if err := decode(e.Checkpoint, &m); err != nil {
		return nil, err
	}
	return &m, m.check()
}

func decode(b []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("not a manifest: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("not a manifest: it goes on after its end")
	}
	return nil
}

// check compares the files with what the model makes them.
func (m *Manifest) check() error {
	if m.Step < 0 || m.Ranks < 1 || m.Ranks > maxRanks {
		return fmt.Errorf("step %d of %d ranks", m.Step, m.Ranks)
	}
	if err := m.Model.check(); err != nil {
		return err
	}
	if len(m.Files) != m.Ranks+2 {
		return fmt.Errorf("%d files of %d ranks", len(m.Files), m.Ranks)
	}
	place := m.Model.place(m.Ranks)
	for i, f := range m.Files {
		want := File{Name: historyFile, Bytes: f.Bytes, XXH3: f.XXH3}
		switch {
		case i < m.Ranks:
			slots := place.Slots(i)
			if f.Rows < 0 || f.Rows > slots {
				return fmt.Errorf("%s holds %d rows of %d", f.Name, f.Rows, slots)
			}
			want.Name, want.Rows = rowsFile(i), f.Rows
			want.Bytes = sizeOf(rowSpecs(slots, f.Rows, &m.Model))
		case i == m.Ranks:
			want.Name, want.Bytes = denseFile, sizeOf(m.Model.denseSpecs())
		}
		if f != want || f.Bytes < 0 {
			return fmt.Errorf("file %q with %d rows has %d bytes, %q of this model %d", f.Name, f.Rows, f.Bytes, want.Name, want.Bytes)
		}
	}
	return nil
}

// sizeOf is the size of a file of these tensors, -1 when it is impossible.
func sizeOf(specs []safetensors.Spec) int64 {
	begin, data, err := safetensors.Header(specs)
	if err != nil {
		return -1
	}
	return int64(len(begin)) + data
}

// rowSpecs are the tensors of a row file.
func rowSpecs(slots, rows int64, m *Model) []safetensors.Spec {
	return []safetensors.Spec{
		{Name: "touched", Shape: []int64{(slots + 63) / 64}, Type: safetensors.U64},
		{Name: "rows", Shape: []int64{rows, int64(m.Width + m.RowState)}},
	}
}
