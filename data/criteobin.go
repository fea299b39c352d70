package data

import (
	"encoding/binary"
	"fmt"
	"os"

	"github.com/ecrec/ecrec/internal/env"
)

// criteoCodec decodes the reference DLRM's binary record: 40 little-endian int32:
// label, 13 integers, 26 ids. An id is taken as unsigned, modulo its table's rows.
type criteoCodec struct{ mod []modulo }

func (c *criteoCodec) decode(b *Batch, at int, records []byte) int {
	labels := b.Labels[at:]
	dense := b.Dense[at*criteoDense:]
	ids := b.IDs[at*criteoTables:]
	mod := (*[criteoTables]modulo)(c.mod)
	for i := 0; len(records) > 0; i++ {
		rec := (*[criteoBytes]byte)(records)
		records = records[criteoBytes:]
		label := binary.LittleEndian.Uint32(rec[:4])
		if label > 1 {
			return i
		}
		labels[i] = float32(label)
		d := (*[criteoDense]float32)(dense[i*criteoDense:])
		for j := range d {
			d[j] = logInt(int32(binary.LittleEndian.Uint32(rec[4+4*j:])))
		}
		id := (*[criteoTables]uint32)(ids[i*criteoTables:])
		for j := range id {
			id[j] = mod[j].of32(binary.LittleEndian.Uint32(rec[4+4*criteoDense+4*j:]))
		}
	}
	return -1
}

// criteoSchema checks that the tables fit the Criteo layout.
func criteoSchema(tables []int64) (Schema, error) {
	s := Schema{Dense: criteoDense, Tables: tables}
	if len(tables) != criteoTables {
		return s, usageErr("the Criteo formats have %d categorical features, but model.tables names %d tables",
			criteoTables, len(tables))
	}
	return s, s.check()
}

func openCriteoBin(o *Options) (Source, error) {
	schema, err := criteoSchema(o.Tables)
	if err != nil {
		return nil, err
	}
	s := &fixed{env: o.Env, schema: schema, codec: &criteoCodec{mod: moduli(schema.Tables)}}
	for _, name := range o.Files {
		f, size, err := openFile(o.Env, name)
		if err != nil {
			s.Close()
			return nil, err
		}
		seg := segment{file: f, name: name, what: "read " + name, first: s.samples, n: size / criteoBytes,
			layout: layout{recordBytes: criteoBytes, blockRecords: scanRecords}}
		s.segments = append(s.segments, seg)
		if size%criteoBytes != 0 {
			s.Close()
			return nil, fileErr(name, "%d bytes are not a whole number of records of %d bytes; the file is cut short or is not criteo-bin: "+
				"copy it again, or check data.format", size, criteoBytes)
		}
		s.samples += seg.n
	}
	find := s.checkFirst
	if o.SkipBad {
		find = s.findBad
	}
	if err := find(o); err != nil {
		s.Close()
		return nil, err
	}
	if s.Len() == 0 {
		s.Close()
		return nil, fileErr(o.Files[0], "none of its %d samples is well-formed", s.samples)
	}
	return s, nil
}

// openFile opens a non-empty regular file and returns its size.
func openFile(e env.Env, name string) (f *os.File, size int64, err error) {
	err = e.Do("open "+name, func() error {
		if f, err = os.Open(name); err != nil {
			return err
		}
		st, err := f.Stat()
		if err != nil {
			return err
		}
		size = st.Size()
		if !st.Mode().IsRegular() {
			return fmt.Errorf("it is not a regular file")
		}
		if size == 0 {
			return fmt.Errorf("the file is empty")
		}
		return nil
	})
	if err == nil {
		return f, size, nil
	}
	if f != nil {
		f.Close()
	}
	return nil, 0, openErr(name, err)
}

// openErr says why a named file cannot be used, once, as the user's to mend.
func openErr(name string, err error) *Error {
	if pe, ok := err.(*os.PathError); ok {
		return &Error{File: name, What: "cannot " + pe.Op + " the data file", Err: pe.Err}
	}
	return &Error{File: name, What: "cannot use the data file", Err: err}
}

// maxBad is the largest number of malformed records that criteo-bin steps over.
const maxBad = 1 << 20

// scanRecords is how many records are read at a time.
const scanRecords = 4096

// checkedRecords is how many records of each file are looked at before any is
// used, 64 MiB of them: a file of another format, and anything wrong with a small
// one, is found before a run starts, and a large one costs no time.
const checkedRecords = 64 << 20 / criteoBytes

// checkFirst refuses files with a malformed label among their first records.
func (s *fixed) checkFirst(*Options) error {
	return s.eachBad(&Options{}, checkedRecords, s.badLabel) // too soon over to show
}

// findBad reads all labels once and notes the records to step over.
func (s *fixed) findBad(o *Options) error {
	err := s.eachBad(o, s.samples, func(seg *segment, p int64) error {
		if len(s.bad) == maxBad {
			return fileErr(seg.name, "more than %d records have a label that is neither 0 nor 1; check data.format", maxBad)
		}
		s.bad = append(s.bad, p)
		return nil
	})
	s.skipped = int64(len(s.bad))
	return err
}

// eachBad visits the records with a malformed label among the first limit ones of
// each file.
func (s *fixed) eachBad(o *Options, limit int64, visit func(seg *segment, p int64) error) error {
	buf := make([]byte, scanRecords*criteoBytes)
	for i := range s.segments {
		seg := &s.segments[i]
		n := min(seg.n, limit)
		for at := int64(0); at < n; at += scanRecords {
			part := buf[:min(scanRecords, n-at)*criteoBytes]
			err := s.env.Do(seg.what, func() error { return seg.readAt(part, seg.layout.offset(at)) })
			if err != nil {
				return err
			}
			for k := 0; k < len(part); k += criteoBytes {
				if binary.LittleEndian.Uint32(part[k:]) <= 1 {
					continue
				}
				if err := visit(seg, seg.first+at+int64(k/criteoBytes)); err != nil {
					return err
				}
			}
			if err := o.progress("scan", (seg.first+at)*criteoBytes, s.samples*criteoBytes); err != nil {
				return err
			}
		}
	}
	return nil
}
