package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/shard"
)

// format is the version of the format that this code writes. It reads this one
// and older ones; format 1 names no run.
const format = 2

// needsRowParts is the feature that rows have several parts (Model.Parts). A reader without
// it would export a row as one tensor.
const needsRowParts = "row-parts"

// needsStatistics is the feature that the dense part has tensors without optimizer state
// (Model.Statistics). A reader without it would take them for state.
const needsStatistics = "statistics"

// needsPartRules is the feature that each part of a row has an update rule, state and initial
// weights of its own (RowPart.Optimizer and Init). A reader without it would draw other weights.
const needsPartRules = "row-part-rules"

// needsParent is the feature that a checkpoint is an increment (Manifest.Parent). A reader without it would take
// its rows for all rows.
const needsParent = "parent"

// features are the features that this reader supports (Manifest.Needs).
var features = []string{needsRowParts, needsStatistics, needsPartRules, needsParent}

const (
	manifestFile = "manifest.json"
	denseFile    = "dense.safetensors"
	historyFile  = "history.bin"
	recipeFile   = "recipe.json"
)

func rowsFile(rank int) string { return fmt.Sprintf("rows-%05d.safetensors", rank) }

// Manifest describes a checkpoint.
type Manifest struct {
	Step  int64 `json:"step"`
	Ranks int   `json:"ranks"` // that wrote it
	// Digest is the model's, if the trainer had computed it. To compute it costs more than
	// to save.
	Digest string `json:"digest,omitempty"`
	// Needs are the features that a reader must support.
	Needs []string `json:"needs,omitempty"`
	// Run is the run that it belongs to; nil if it names none.
	Run   *lineage.Run `json:"run,omitempty"`
	Model Model        `json:"model"`
	// Parent is the checkpoint that this one is an increment of; nil: it is full.
	Parent *Parent `json:"parent,omitempty"`
	// Files are the row files in the order of ranks, the dense file, the history.
	Files []File `json:"files"`
	// Recipe is the file of the data's recipe; nil: there is none.
	Recipe *File `json:"recipe,omitempty"`

	sum string // of the manifest as it was read
}

// Parent names the checkpoint of which another one, in the same folder, is an increment. Both are of one lineage,
// and of as many ranks.
type Parent struct {
	Name string `json:"name"` // of its folder
	Step int64  `json:"step"`
	XXH3 string `json:"xxh3"` // as its manifest.json has it
}

// AllFiles lists Files and Recipe.
func (m *Manifest) AllFiles() []File {
	if m.Recipe == nil {
		return m.Files
	}
	return append(slices.Clip(m.Files), *m.Recipe)
}

// File is one file of a checkpoint.
type File struct {
	Name  string `json:"name"`
	Rows  int64  `json:"rows,omitempty"` // touched rows of a row file
	Bytes int64  `json:"bytes"`
	XXH3  string `json:"xxh3"`
}

func sumText(sum uint64) string { return fmt.Sprintf("%016x", sum) }

// envelope is manifest.json. Format and sum keep their place in all formats, so that every
// version can distinguish a newer manifest from a damaged one.
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
	m.sum = sumText(xxh3.HashSeed(body, format))
	return envelope{format, m.sum, body}.encode(), nil
}

// encode is the content of the file.
func (e envelope) encode() []byte {
	return fmt.Appendf(nil, "{\n\"format\": %d,\n\"xxh3\": \"%s\",\n\"checkpoint\": %s\n}\n", e.Format, e.XXH3, e.Checkpoint)
}

// maxManifest bounds the size of a manifest.
const maxManifest = 256 << 20

// readManifest reads the manifest of the checkpoint in a folder.
func readManifest(path string) (*Manifest, error) {
	b, err := readRegular(filepath.Join(path, manifestFile), maxManifest)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if _, ok := stepOf(filepath.Base(path)); ok {
			if _, err := os.Stat(path); err == nil {
				return nil, &Corrupt{path, manifestFile, errors.New("it is missing")}
			}
		}
		return nil, &NotFound{path}
	case errors.Is(err, errNotRegular), errors.Is(err, errTooLong):
		return nil, &Corrupt{path, manifestFile, err}
	case err != nil:
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	m, err := parseManifest(b)
	var newer errNewer
	if errors.As(err, &newer) {
		return nil, &Newer{path, newer.format, newer.needs}
	}
	if err != nil {
		return nil, &Corrupt{path, manifestFile, err}
	}
	return m, nil
}

var (
	errNotRegular = errors.New("it is not a regular file")
	errTooLong    = errors.New("it is too long")
)

// readRegular reads a file of at most most bytes. A file that is not regular might block, or
// never end.
func readRegular(name string, most int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errNotRegular
	case info.Size() > most:
		return nil, fmt.Errorf("%w: %d bytes", errTooLong, info.Size())
	}
	return io.ReadAll(io.LimitReader(f, info.Size()))
}

// errNewer is a manifest of a later version of ecrec, undamaged.
type errNewer struct {
	format int
	needs  string // the unsupported feature; empty: the format is unsupported
}

func (e errNewer) Error() string { return fmt.Sprintf("format %d %s", e.format, e.needs) }

// parseManifest reads manifest.json, and checks everything that needs no other file.
func parseManifest(b []byte) (*Manifest, error) {
	var e envelope
	if err := decode(b, &e, (*json.Decoder).DisallowUnknownFields); err != nil {
		return nil, err
	}
	if want := sumText(xxh3.HashSeed(e.Checkpoint, uint64(e.Format))); e.XXH3 != want {
		return nil, fmt.Errorf("its sum is %s, that of its content %s", e.XXH3, want)
	}
	if e.Format > format {
		return nil, errNewer{format: e.Format}
	}
	if !bytes.Equal(b, e.encode()) { // the sum does not cover these bytes, and JSON accepts "Format" for "format"
		return nil, errors.New("not as it was written: damaged around its content")
	}
	var m Manifest
	if err := decode(e.Checkpoint, &m); err != nil { // additions of a later version are ignored, or listed in Needs
		return nil, err
	}
	for _, need := range m.Needs {
		if !slices.Contains(features, need) {
			return nil, errNewer{e.Format, need}
		}
	}
	m.sum = e.XXH3
	return &m, m.check()
}

func decode(b []byte, to any, options ...func(*json.Decoder)) error {
	d := json.NewDecoder(bytes.NewReader(b))
	for _, option := range options {
		option(d)
	}
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("not a manifest: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("not a manifest: there is more after its end")
	}
	return nil
}

// check compares the files with the files that the model would have.
func (m *Manifest) check() error {
	if m.Step < 0 || m.Ranks < 1 || m.Ranks > maxRanks {
		return fmt.Errorf("step %d of %d ranks", m.Step, m.Ranks)
	}
	if err := errors.Join(m.Model.check(), checkRun(m.Run), m.checkParent()); err != nil {
		return err
	}
	if len(m.Files) != m.Ranks+2 {
		return fmt.Errorf("%d files of %d ranks", len(m.Files), m.Ranks)
	}
	if f := m.Recipe; f != nil && (f.Name != recipeFile || f.Rows != 0 || f.Bytes < 1) {
		return fmt.Errorf("file %q with %d rows has %d bytes, and must be %s", f.Name, f.Rows, f.Bytes, recipeFile)
	}
	place := m.Model.placeRows(m.Ranks)
	for i, f := range m.Files {
		want := File{Name: historyFile, Bytes: f.Bytes, XXH3: f.XXH3}
		switch {
		case i < m.Ranks:
			slots := place.Slots(i)
			if slots > shard.MaxSlots {
				return fmt.Errorf("rank %d has %d rows, at most %d fit", i, slots, shard.MaxSlots)
			}
			if f.Rows < 0 || f.Rows > slots {
				return fmt.Errorf("%s holds %d rows of %d", f.Name, f.Rows, slots)
			}
			want.Name, want.Rows = rowsFile(i), f.Rows
			want.Bytes = sizeOf(rowSpecs(slots, f.Rows, &m.Model, m.Parent != nil))
		case i == m.Ranks:
			want.Name, want.Bytes = denseFile, sizeOf(m.Model.denseSpecs())
		}
		if f != want || f.Bytes < 0 {
			return fmt.Errorf("file %q with %d rows has %d bytes, %q of this model %d", f.Name, f.Rows, f.Bytes, want.Name, want.Bytes)
		}
	}
	return nil
}

// checkParent finds a parent that no increment has.
func (m *Manifest) checkParent() error {
	p := m.Parent
	if needs := slices.Contains(m.Needs, needsParent); needs != (p != nil) {
		return fmt.Errorf("its needs and its parent do not fit together")
	}
	if p == nil {
		return nil
	}
	if step, ok := stepOf(p.Name); !ok || step != p.Step || p.Step >= m.Step {
		return fmt.Errorf("%q of step %d is the parent of step %d", p.Name, p.Step, m.Step)
	}
	return nil
}

// lineageOf is the lineage of a checkpoint's run, zero without a run.
func lineageOf(r *lineage.Run) lineage.ID {
	if r == nil {
		return lineage.ID{}
	}
	return r.Lineage
}

// checkRun finds values that no run has. A nil run is valid.
func checkRun(r *lineage.Run) error {
	if r == nil {
		return nil
	}
	bytes := 0
	for _, e := range r.Recipe {
		bytes += len(e.Key) + len(e.Value)
	}
	if len(r.Name) > maxNameBytes || len(r.Recipe) > maxRecipe || bytes > maxRecipeBytes || len(r.Forks) > maxForks {
		return fmt.Errorf("a run whose name has %d bytes, with %d forks and a recipe of %d entries and %d bytes", len(r.Name),
			len(r.Forks), len(r.Recipe), bytes)
	}
	return nil
}

// sizeOf is the size of a file of these tensors, -1 if there can be none.
func sizeOf(specs []safetensors.Spec) int64 {
	begin, data, err := safetensors.Header(specs)
	if err != nil {
		return -1
	}
	return int64(len(begin)) + data
}

// rowSpecs are the tensors of a row file. Rows of an increment are listed by their slots if that is shorter than
// a bit for each slot.
func rowSpecs(slots, rows int64, m *Model, increment bool) []safetensors.Spec {
	list := safetensors.Spec{Name: "touched", Shape: []int64{(slots + 63) / 64}, Type: safetensors.U64}
	if increment && listsSlots(slots, rows) {
		list = safetensors.Spec{Name: "slots", Shape: []int64{rows}, Type: safetensors.I32}
	}
	return []safetensors.Spec{list, {Name: "rows", Shape: []int64{rows, int64(m.Width + m.RowState)}}}
}

// listsSlots reports whether the row file of an increment lists slots.
func listsSlots(slots, rows int64) bool { return 4*rows < 8*((slots+63)/64) }
