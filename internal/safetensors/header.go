package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"sort"
	"strconv"
)

// Limits, so that a damaged length is an error and not an allocation.
const (
	maxHeaderBytes = 100 << 20 // as in the reference implementation
	maxTensors     = 1 << 20
	maxDims        = 8
	metadataKey    = "__metadata__"

	longText     = 4 << 20 // from which a text of the metadata is a tensor
	maxTextBytes = 1 << 30
)

// The member of the metadata that Create adds to mark its files.
const (
	producerKey = "producer"
	producer    = "ecrec"
)

// DType is the type of a tensor's elements, F32 when empty.
type DType string

// The types that are read and written.
const (
	F32 DType = "F32"
	I32 DType = "I32"
	U64 DType = "U64"
	u8  DType = "U8" // of a long text of the metadata
)

// elementBytes returns the size of an element in bytes, 0 for an unknown type.
func (d DType) elementBytes() int64 {
	switch d {
	case "", F32, I32:
		return 4
	case U64:
		return 8
	case u8:
		return 1
	}
	return 0
}

// Spec is the name, shape and element type of a tensor.
type Spec struct {
	Name  string
	Shape []int64
	Type  DType
}

// dtype returns the type as a header names it.
func (s *Spec) dtype() DType { return cmp.Or(s.Type, F32) }

// Bytes returns the length of the tensor's data. The error is for an invalid shape.
func (s Spec) Bytes() (int64, error) {
	if len(s.Shape) > maxDims {
		return 0, fmt.Errorf("tensor %q has %d dimensions, over the limit of %d", s.Name, len(s.Shape), maxDims)
	}
	n := s.Type.elementBytes()
	if n == 0 {
		return 0, fmt.Errorf("tensor %q is %q; only F32, I32 and U64 are supported: convert it first", s.Name, s.Type)
	}
	for _, d := range s.Shape {
		if d < 0 {
			return 0, fmt.Errorf("tensor %q has the negative dimension %d", s.Name, d)
		}
		if d > 0 && n > math.MaxInt64/d {
			return 0, fmt.Errorf("tensor %q has the impossible shape %v", s.Name, s.Shape)
		}
		n *= d
	}
	return n, nil
}

// extent is a tensor of a header and the range of its data.
type extent struct {
	Spec
	begin, end int64
}

// parseHeader reads the JSON of a header whose data takes dataBytes, and returns the tensors
// in the order of their data, and the metadata.
func parseHeader(header []byte, dataBytes int64) (all []extent, metadata map[string]string, err error) {
	dec := json.NewDecoder(bytes.NewReader(header))
	if err := expectDelim(dec, '{'); err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, nil, fmt.Errorf("header is not JSON: %v", err)
		}
		name := token.(string) // a key: the decoder accepts nothing else here
		if seen[name] {
			return nil, nil, fmt.Errorf("header names %q twice", name)
		}
		seen[name] = true
		if len(seen) > maxTensors {
			return nil, nil, fmt.Errorf("header names more than %d tensors", maxTensors)
		}
		if name == metadataKey {
			if err := dec.Decode(&metadata); err != nil {
				return nil, nil, fmt.Errorf("header's %s is not an object of strings: %v", metadataKey, err)
			}
			continue
		}
		e, err := parseTensor(dec, name)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, e)
	}
	if err := expectDelim(dec, '}'); err != nil {
		return nil, nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("header continues after its JSON object")
	}
	return all, metadata, checkCover(all, dataBytes)
}

func expectDelim(dec *json.Decoder, want json.Delim) error {
	token, err := dec.Token()
	if err != nil {
		return fmt.Errorf("header is not JSON: %v", err)
	}
	if token != want {
		return fmt.Errorf("header is not a JSON object: found %v where %v belongs", token, want)
	}
	return nil
}

func parseTensor(dec *json.Decoder, name string) (extent, error) {
	var raw struct {
		DType       DType   `json:"dtype"`
		Shape       []int64 `json:"shape"`
		DataOffsets []int64 `json:"data_offsets"`
	}
	if err := dec.Decode(&raw); err != nil {
		return extent{}, fmt.Errorf("tensor %q: header entry is not valid: %v", name, err)
	}
	e := extent{Spec: Spec{name, raw.Shape, raw.DType}}
	if raw.DType.elementBytes() == 0 || raw.DType == "" {
		return e, fmt.Errorf("tensor %q is %q; only F32, I32 and U64 are read, so convert it first", name, raw.DType)
	}
	if raw.Shape == nil {
		return e, fmt.Errorf("tensor %q has no shape", name)
	}
	if len(raw.DataOffsets) != 2 {
		return e, fmt.Errorf("tensor %q has %d data_offsets, not 2", name, len(raw.DataOffsets))
	}
	n, err := e.Bytes()
	if err != nil {
		return e, err
	}
	e.begin, e.end = raw.DataOffsets[0], raw.DataOffsets[1]
	if e.begin < 0 || e.end < e.begin || e.end-e.begin != n {
		return e, fmt.Errorf("tensor %q of shape %v takes %d bytes, but its data_offsets are [%d, %d]", name, e.Shape, n, e.begin, e.end)
	}
	return e, nil
}

// checkCover sorts tensors by place and checks that they cover the data exactly.
func checkCover(all []extent, dataBytes int64) error {
	sort.SliceStable(all, func(i, j int) bool {
		a, b := all[i], all[j]
		return a.begin < b.begin || a.begin == b.begin && a.end < b.end
	})
	var at int64
	for _, e := range all {
		switch {
		case e.begin < at:
			return fmt.Errorf("tensor %q overlaps the one before it: it starts at byte %d, that ends at %d", e.Name, e.begin, at)
		case e.begin > at:
			return fmt.Errorf("bytes %d to %d before tensor %q belong to no tensor", at, e.begin, e.Name)
		}
		at = e.end
	}
	if at != dataBytes {
		return fmt.Errorf("tensors take %d bytes, but the file holds %d; it is damaged or cut short", at, dataBytes)
	}
	return nil
}

// Header returns the beginning of a file with tensors in this order: length and JSON,
// padded so that the data is aligned to 8 bytes. Equal specs give equal bytes. It also
// returns the length of the data that follows.
func Header(specs []Spec) (begin []byte, dataBytes int64, err error) {
	return beginning(specs, nil)
}

// beginning is Header with metadata beside the format.
func beginning(specs []Spec, metadata map[string]string) (begin []byte, dataBytes int64, err error) {
	header, dataBytes, err := formatHeader(specs, metadata)
	if err != nil {
		return nil, 0, err
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), dataBytes, nil
}

// formatHeader returns the JSON of Header.
func formatHeader(specs []Spec, metadata map[string]string) (header []byte, dataBytes int64, err error) {
	members := map[string]string{"format": "pt"} // for readers that make PyTorch tensors
	maps.Copy(members, metadata)
	text, err := json.Marshal(members) // sorted by key
	if err != nil {
		return nil, 0, fmt.Errorf("metadata: %v", err)
	}
	out := append([]byte(`{"`+metadataKey+`":`), text...)
	seen := map[string]bool{metadataKey: true}
	for _, s := range specs {
		n, err := s.Bytes()
		switch {
		case err != nil:
			return nil, 0, err
		case s.Name == "" || seen[s.Name]:
			return nil, 0, fmt.Errorf("tensor name %q is empty, reserved or used twice", s.Name)
		case n > math.MaxInt64/2-dataBytes:
			return nil, 0, fmt.Errorf("tensor %q makes the file impossibly large", s.Name)
		}
		seen[s.Name] = true
		name, err := json.Marshal(s.Name)
		if err != nil {
			return nil, 0, fmt.Errorf("tensor name %q: %v", s.Name, err)
		}
		out = append(append(append(out, ','), name...), `:{"dtype":"`+string(s.dtype())+`","shape":[`...)
		for i, d := range s.Shape {
			if i > 0 {
				out = append(out, ',')
			}
			out = strconv.AppendInt(out, d, 10)
		}
		out = append(out, `],"data_offsets":[`...)
		out = strconv.AppendInt(out, dataBytes, 10)
		out = append(out, ',')
		dataBytes += n
		out = append(strconv.AppendInt(out, dataBytes, 10), "]}"...)
	}
	out = append(out, '}')
	for len(out)%8 != 0 {
		out = append(out, ' ')
	}
	if len(out) > maxHeaderBytes || len(specs) >= maxTensors {
		return nil, 0, fmt.Errorf("%d tensors make a header of %d bytes, over the limit", len(specs), len(out))
	}
	return out, dataBytes, nil
}
