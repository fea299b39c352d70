package data

import "encoding/binary"

// criteoBinFormat is the registry's entry.
var criteoBinFormat = Format{
	Name:    FormatCriteoBin,
	Doc:     "the reference DLRM's binary records: label, 13 integers, 26 ids, each a little-endian int32",
	Endings: []string{".bin"},
	Columns: criteoColumns,
	Open:    openCriteoBin,
}

// criteoColumns are the columns of every Criteo format.
func criteoColumns(CSV) (dense, categorical int) { return criteoDense, criteoTables }

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
func criteoSchema(s Schema) (Schema, error) {
	if n := s.Features(); n != criteoTables {
		return s, usageErr("the Criteo formats have %d categorical features, but model.tables names %d tables", criteoTables, n)
	}
	return s, s.checkLimits()
}

func openCriteoBin(o *Options) (Source, error) {
	schema, err := criteoSchema(o.schema(criteoDense))
	if err != nil {
		return nil, err
	}
	s := &fixed{env: o.Env, schema: schema, codec: &criteoCodec{mod: moduli(schema.FeatureRows())}}
	for _, name := range o.Files {
		f, size, err := openFile(o.Env, name)
		if err != nil {
			s.Close()
			return nil, err
		}
		if err := checkBinary(o.Env, FormatCriteoBin, f); err != nil {
			f.Close()
			s.Close()
			return nil, err
		}
		src := sourceFile{file: f, name: name, what: "read " + name, first: s.samples, n: size / criteoBytes,
			layout: layout{recordBytes: criteoBytes, blockRecords: scanRecords}}
		s.files = append(s.files, src)
		if size%criteoBytes != 0 {
			s.Close()
			return nil, fileErr(name, "%d bytes are not a multiple of %d, the bytes of a record; the file is cut short or is not criteo-bin: "+
				"copy it again, or check data.format", size, criteoBytes)
		}
		s.samples += src.n
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

// maxBad is the largest number of malformed records that criteo-bin skips.
const maxBad = 1 << 20

// scanRecords is how many records are read at a time.
const scanRecords = 4096

// checkedRecords is how many records of each file are checked when it is opened: 64 MiB.
// So a file of another format, and any mistake in a small file, is found before a run
// starts. A large file costs no time.
const checkedRecords = 64 << 20 / criteoBytes

// checkFirst refuses files with a malformed label among their first records.
func (s *fixed) checkFirst(*Options) error {
	return s.eachBad(&Options{}, checkedRecords, s.badLabel) // too short to show
}

// findBad reads all labels once and lists the records to skip.
func (s *fixed) findBad(o *Options) error {
	err := s.eachBad(o, s.samples, func(src *sourceFile, p int64) error {
		if len(s.bad) == maxBad {
			return fileErr(src.name, "more than %d records have a label that is neither 0 nor 1; check data.format", maxBad)
		}
		s.bad = append(s.bad, p)
		return nil
	})
	s.skipped = int64(len(s.bad))
	return err
}

// eachBad visits the records with a malformed label among the first limit ones of
// each file.
func (s *fixed) eachBad(o *Options, limit int64, visit func(src *sourceFile, p int64) error) error {
	buf := make([]byte, scanRecords*criteoBytes)
	for i := range s.files {
		src := &s.files[i]
		n := min(src.n, limit)
		for at := int64(0); at < n; at += scanRecords {
			part := buf[:min(scanRecords, n-at)*criteoBytes]
			err := s.env.Do(src.what, func() error { return src.readAt(part, src.layout.recordOffset(at)) })
			if err != nil {
				return err
			}
			for k := 0; k < len(part); k += criteoBytes {
				if binary.LittleEndian.Uint32(part[k:]) <= 1 {
					continue
				}
				if err := visit(src, src.first+at+int64(k/criteoBytes)); err != nil {
					return err
				}
			}
			if err := o.reportProgress("scan", (src.first+at)*criteoBytes, s.samples*criteoBytes); err != nil {
				return err
			}
		}
	}
	return nil
}
