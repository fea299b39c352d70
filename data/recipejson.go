package data

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/regular"
)

// ParseRecipe reads the JSON of a recipe.
func ParseRecipe(text []byte) (*Recipe, error) {
	r := new(Recipe)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, usageErr("not a recipe: %v", err)
	}
	return r, r.validate()
}

// ReadRecipe reads a recipe from a file.
func ReadRecipe(e env.Env, name string) (r *Recipe, err error) {
	var text bytes.Buffer
	err = e.Do("read "+name, func() error {
		f, err := regular.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		if st, err := f.Stat(); err == nil {
			text.Grow(int(st.Size()) + bytes.MinRead) // it does not grow then
		}
		_, err = text.ReadFrom(f)
		return err
	})
	if err != nil {
		return nil, err
	}
	if r, err = ParseRecipe(text.Bytes()); err != nil {
		return nil, fileErr(name, "%v", err)
	}
	return r, nil
}

// SaveRecipe writes a recipe to a file.
func SaveRecipe(e env.Env, name string, r *Recipe) error { return writeWhole(e, name, r.writeJSON) }

// Encode returns the recipe as JSON.
func (r *Recipe) Encode() []byte {
	var text bytes.Buffer
	_ = r.writeJSON(&text) // a buffer has no errors
	return text.Bytes()
}

// hashesKey is what the JSON of hashes begins with. No other text of a recipe has it, as quotes within texts are escaped.
const hashesKey = `"vocabulary_xxh3": "`

// writeJSON writes the recipe as JSON. It takes little memory for hashes: they are encoded on the way.
func (r *Recipe) writeJSON(to io.Writer) error {
	short, size := *r, 0
	short.Categorical = slices.Clone(r.Categorical)
	var all []Hashes
	for i := range short.Categorical {
		if h := &short.Categorical[i].Hashes; len(*h) > 0 {
			all = append(all, *h)
			size += base64.StdEncoding.EncodedLen(8 * len(*h))
			*h = Hashes{0}
		}
	}
	text, err := json.MarshalIndent(&short, "", " ")
	if err != nil {
		panic(fmt.Sprintf("data: a recipe must encode: %v", err))
	}
	text = append(text, '\n')
	if b, ok := to.(*bytes.Buffer); ok {
		b.Grow(len(text) + size)
	}
	w := bufio.NewWriterSize(to, 64<<10)
	for _, h := range all {
		before, rest, _ := bytes.Cut(text, []byte(hashesKey))
		w.Write(before)
		w.WriteString(hashesKey)
		h.writeBase64(w)
		text = rest[base64.StdEncoding.EncodedLen(8):]
	}
	w.Write(text)
	return w.Flush() // the first error of all
}

// Hashes is a list of hashes. As JSON it is their bytes, in little-endian and base64.
type Hashes []uint64

// MarshalJSON implements json.Marshaler.
func (h Hashes) MarshalJSON() ([]byte, error) {
	var text bytes.Buffer
	text.WriteByte('"')
	h.writeBase64(&text)
	text.WriteByte('"')
	return text.Bytes(), nil
}

// hashesBytes is how many bytes of hashes are coded at a time: whole hashes, and whole groups of base64.
const hashesBytes = 24 << 10

func (h Hashes) writeBase64(w io.Writer) {
	b := make([]byte, 0, hashesBytes)
	var text []byte
	for part := range slices.Chunk(h, hashesBytes/8) {
		b = b[:0]
		for _, x := range part {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
		text = base64.StdEncoding.AppendEncode(text[:0], b)
		w.Write(text)
	}
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Hashes) UnmarshalJSON(text []byte) error {
	var b []byte
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	if len(b)%8 != 0 {
		return fmt.Errorf("%d bytes are no list of hashes", len(b))
	}
	*h = make(Hashes, len(b)/8)
	for i := range *h {
		(*h)[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return nil
}
