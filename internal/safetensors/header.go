package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
)

// DType is the type of a tensor's elements, F32 when empty.
type DType string

// The types that are read and written.
const (
	F32 DType = "F32"
	U64 DType = "U64"
)

// bytes is the size of an element, 0 for a type that is not known.
func (d DType) bytes() int64 {
	switch d {
	case "", F32:
		return 4
	case U64:
		return 8
	}
	return 0
}

// Spec is the name, shape and element type of a tensor.
type Spec struct {
	Name  string
	Shape []int64
	Type  DType
}

// Bytes is the length of the tensor's data, or an error if the shape is none.
func (s Spec) Bytes() (int64, error) {
	if len(s.Shape) > maxDims {
		return 0, fmt.Errorf("tensor %q has %d dimensions, over the limit of %d", s.Name, len(s.Shape), maxDims)
	}
	n := s.Type.bytes()
	if n == 0 {
		return 0, fmt.Errorf("tensor %q is %q; only F32 and U64 are known, so convert it first", s.Name, s.Type)
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

// extent is a tensor of a header and where its data lies.
type extent struct {
	Spec
	begin, end int64
}

// parseHeader reads the JSON of a header whose data takes dataBytes, and returns
// the tensors in the order of their data.
func parseHeader(header []byte, dataBytes int64) ([]extent, error) {
	dec := json.NewDecoder(bytes.NewReader(header))
	if err := expectDelim(dec, '{'); err != nil {
		return nil, err
	}
	var all []extent
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("header is not JSON: %v", err)
		}
		name := token.(string) // a key: the decoder accepts nothing else here
		if seen[name] {
			return nil, fmt.Errorf("header names %q twice", name)
		}
		seen[name] = true
		if len(seen) > maxTensors {
			return nil, fmt.Errorf("header names more than %d tensors", maxTensors)
		}
		if name == metadataKey {
			var metadata map[string]string
			if err := dec.Decode(&metadata); err != nil {
				return nil, fmt.Errorf("header's %s is not an object of strings: %v", metadataKey, err)
			}
			continue
		}
		e, err := parseTensor(dec, name)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	if err := expectDelim(dec, '}'); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("header goes on after its JSON object")
	}
	return all, checkCover(all, dataBytes)
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
	if raw.DType.bytes() == 0 || raw.DType == "" {
		return e, fmt.Errorf("tensor %q is %q; only F32 and U64 are read, so convert it first", name, raw.DType)
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

// Header is how a file of tensors that follow each other in this order begins:
// length and JSON, padded so that the data is aligned to 8 bytes. It is the same
// bytes for the same specs. It also returns the length of the data that follows.
func Header(specs []Spec) (begin []byte, dataBytes int64, err error) {
	header, dataBytes, err := formatHeader(specs)
	if err != nil {
		return nil, 0, err
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), dataBytes, nil
}

// formatHeader is the JSON of Header.
func formatHeader(specs []Spec) (header []byte, dataBytes int64, err error) {
	out := []byte(`{"` + metadataKey + `":{"format":"pt"}`)
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
		dtype := s.Type
		if dtype == "" {
			dtype = F32
		}
		out = append(append(append(out, ','), name...), `:{"dtype":"`+string(dtype)+`","shape":[`...)
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
