package derive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/ecrec/ecrec/stream"
)

// Keys of the records that are no rows. A key of a row has a slash.
const (
	keyBegin  = "begin"
	keyMarker = "marker"
)

// Header begins the rows of a run.
type Header struct {
	Lineage string   `json:"lineage"`
	As      Encoding `json:"as"`
	Dim     int      `json:"dim"`   // weights of a row
	Parts   []int    `json:"parts"` // weights of each of its parts, such as the embedding and the linear weight
}

// Marker follows on the rows of a step.
type Marker struct {
	Step   int64  `json:"step"`
	Digest string `json:"digest"` // of the run's model, with its optimizer state
	Header
	Rows      int64   `json:"rows"`  // that were sent since the marker before
	Total     int64   `json:"total"` // in the topic since the Header
	MaxError  float64 `json:"max_error"`
	MeanError float64 `json:"mean_error"` // over the weights of Rows
	Saturated int64   `json:"saturated,omitempty"`
	NotFinite int64   `json:"not_finite,omitempty"`
	Written   int64   `json:"written_ms,omitempty"` // when the run wrote the marker, since 1970
}

// keyOf appends the key of a row.
func keyOf(to []byte, table string, id int64) []byte {
	return strconv.AppendInt(append(append(to, table...), '/'), id, 10)
}

// parseKey parses the key of a row.
func parseKey(key []byte) (table string, id int64, err error) {
	i := bytes.LastIndexByte(key, '/')
	if i < 0 {
		return "", 0, fmt.Errorf("%.40q is no key of a row", key)
	}
	id, err = strconv.ParseInt(string(key[i+1:]), 10, 64)
	return string(key[:i]), id, err
}

// parseMarker parses the value of a marker.
func parseMarker(value []byte) (m *Marker, err error) {
	m = &Marker{}
	if err = json.Unmarshal(value, m); err == nil {
		_, err = ParseEncoding(string(m.As))
	}
	return m, err
}

// Map is the rows of a topic, for a consumer. It changes at markers only.
type Map struct {
	Marker *Marker           // nil: there was none
	Rows   map[string][]byte // encoded, by TABLE/ID

	begun   bool              // a Header was taken since Marker
	changes map[string][]byte // since Marker; without a value the row is removed
}

// Take takes the next record. It reports whether that is a marker: then Rows has the rows of the marker.
func (m *Map) Take(r stream.Record) (bool, error) {
	if m.changes == nil {
		m.changes = map[string][]byte{}
	}
	switch key := string(r.Key); key {
	case keyBegin:
		m.begun = true
		clear(m.changes)
		return false, nil
	case keyMarker:
		marker, err := parseMarker(r.Bytes)
		if err != nil {
			return false, fmt.Errorf("the marker at offset %d: %w", r.Offset, err)
		}
		if m.begun || m.Rows == nil {
			m.Rows = map[string][]byte{}
		}
		for key, value := range m.changes {
			if len(value) == 0 {
				delete(m.Rows, key)
			} else {
				m.Rows[key] = value
			}
		}
		clear(m.changes)
		m.Marker, m.begun = marker, false
		return true, nil
	default:
		if _, _, err := parseKey(r.Key); err != nil {
			return false, fmt.Errorf("the record at offset %d: %w", r.Offset, err)
		}
		m.changes[key] = r.Bytes
		return false, nil
	}
}
