package data

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/ecrec/ecrec/internal/env"
)

// criteoNumPyFormat is the registry's entry.
var criteoNumPyFormat = Format{
	Name: FormatCriteoNumPy,
	Doc: "NumPy's arrays of MLPerf's DLRM: a day is a file of ids, `day_0_sparse_multi_hot.npz` or `day_0_sparse.npy`, " +
		"with `day_0_dense.npy` and `day_0_labels.npy` beside it",
	Endings: []string{".npz", ".npy"},
	Scaled:  true,
	Columns: func(CSV) (dense, categorical int) { return criteoDense, Any },
	Open:    openCriteoNumPy,
	text:    newNumPyFormat,
}

// numpySource is a Source of the files of days. Samples are read by their positions in the arrays.
type numpySource struct {
	env    env.Env
	schema Schema
	what   string // for Env.Do
	days   []*numpyDay
	fileSamples
	hots []int // of each feature
	bags bool  // some feature has several ids
	// Of the ids of a sample, one after the other: the rows of their tables.
	mods []modulo
	// blockSamples is how many samples of a day are read at once.
	blockSamples int64
}

// numpyBlockBytes bounds the bytes of samples that are read at once.
const numpyBlockBytes = 4 << 20

func openCriteoNumPy(o *Options) (_ Source, err error) {
	s := &numpySource{env: o.Env, schema: o.schema(criteoDense)}
	if err := s.schema.checkLimits(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	files, err := idFiles(o.Files)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		d, err := openDay(o.Env, file, checkNumPyFile)
		if err != nil {
			return nil, err
		}
		d.first = s.samples
		s.days, s.samples = append(s.days, d), s.samples+d.n
		if hots := d.hots(); !slices.Equal(hots, s.days[0].hots()) {
			return nil, fileErr(file, "its samples have other numbers of ids than those of %s", files[0])
		} else if n := s.schema.Features(); len(hots) != n {
			return nil, fileErr(file, "its samples have %d categorical features, but model.tables names %d tables", len(hots), n)
		}
	}
	s.what = "read " + files[0]
	s.setIDs()
	if err := s.checkSamples(o); err != nil {
		return nil, err
	}
	if s.Len() == 0 {
		return nil, fileErr(files[0], "none of its %d samples is well-formed", s.samples)
	}
	return s, nil
}

// idFiles returns the files of ids among the files of days.
func idFiles(files []string) (ids []string, err error) {
	for i := 0; i < len(files); i += filesOfDay {
		if _, ok := dayOf(files[i]); !ok {
			return nil, fileErr(files[i], "it is no file of ids; names of those end in %s or %s, and names of the numbers and labels beside them in %s and %s",
				multiHotEnding, oneHotEnding, denseEnding, labelsEnding)
		}
		ids = append(ids, files[i])
	}
	return ids, nil
}

// setIDs takes the numbers of ids of the features.
func (s *numpySource) setIDs() {
	s.hots = s.days[0].hots()
	for f, rows := range s.schema.FeatureRows() {
		s.mods = append(s.mods, slices.Repeat([]modulo{newModulo(rows)}, s.hots[f])...)
	}
	if s.bags = len(s.mods) > len(s.hots); s.bags {
		s.schema.IDs = float64(len(s.mods))
	}
	s.blockSamples = shuffleBlock
	for _, d := range s.days {
		s.blockSamples = min(s.blockSamples, max(1, numpyBlockBytes/int64(d.sampleBytes())))
	}
}

func (s *numpySource) Schema() Schema { return s.schema }
func (s *numpySource) Skipped() int64 { return int64(len(s.bad)) }

func (s *numpySource) Close() error {
	var all []error
	for _, d := range s.days {
		all = append(all, d.closeFiles())
	}
	return errors.Join(all...)
}

// checkNumPyFile is a fileCheck.
func checkNumPyFile(e env.Env, f *os.File) error {
	head, err := readHead(e, f)
	if err != nil {
		return err
	}
	return checkNumPyHead(f.Name(), head)
}

// checkNumPyHead refuses a file of another kind, by its beginning.
func checkNumPyHead(name string, head []byte) error {
	magic, is := npyMagic, "npy (NumPy)"
	if strings.HasSuffix(name, multiHotEnding) {
		magic, is = zipLocal, "npz (NumPy)"
	}
	switch kind := sniff(head); {
	case strings.HasPrefix(string(head), magic):
		return nil
	case kind != nil:
		return fileErr(name, "it is %s, and its name is that of %s; %s", kind.is, is, kind.remedy)
	}
	return fileErr(name, "it is not %s; copy the file again, and compare its checksum", is)
}

// Read implements Source.
func (s *numpySource) Read(b *Batch, idx []int64) error {
	switch {
	case !s.bags:
		b.resize(len(idx), &s.schema)
	case len(idx) > math.MaxInt32/len(s.mods):
		return usageErr("%d samples of %d ids each are too many for a batch; lower train.global_batch", len(idx), len(s.mods))
	default:
		b.cutBags(len(idx), &s.schema, s.hots)
	}
	if len(idx) == 0 {
		return nil
	}
	r := b.beginRead(idx)
	r.src = s
	return s.env.Do(s.what, r.do)
}

// readSamples serves the indexes in order, a stretch within one block of a day at a time.
func (s *numpySource) readSamples(r *readState) error {
	for at := 0; at < len(r.idx); {
		p, err := s.physicalIndex(r.idx[at])
		if err != nil {
			return err
		}
		d := s.dayOf(p)
		block := (p - d.first) / s.blockSamples
		start := d.first + block*s.blockSamples
		end := min(start+s.blockSamples, d.first+d.n)
		t, err := s.findStretch(r.idx[at:], start, end)
		if err != nil {
			return err
		}
		rows, err := r.findRows(d, block, start-d.first, end-d.first, &t)
		if err != nil {
			return err
		}
		if rows == nil {
			rows = &r.rows
			if !t.isDense() {
				t = stretch{n: 1, lo: p, hi: p + 1}
			}
			if err := rows.load(d, t.lo-d.first, int(t.hi-t.lo)); err != nil {
				return err
			}
		}
		r.picks = grown(r.picks, t.n)
		for i := range r.picks {
			p, _ := s.physicalIndex(r.idx[at+i])
			r.picks[i] = int(p - d.first - rows.first)
		}
		if !s.decode(r.batch, at, rows, r.picks) {
			for _, i := range r.picks {
				if err := rows.findFault(i); err != nil {
					return err
				}
			}
		}
		at += t.n
	}
	return nil
}

// findRows returns samples [lo, hi) of a day, which are a block, if the cache has them or is to load them for a stretch; else nil.
func (r *readState) findRows(d *numpyDay, block, lo, hi int64, t *stretch) (*numpyRows, error) {
	if r.blocks == nil || t.ascending && t.n > 1 {
		return nil, nil
	}
	b := r.blocks.findPlace(d, block, hi-lo)
	if !b.loaded {
		perArray := int64(d.sampleBytes() / len(d.arrays)) // a sample by itself is a read of each array
		if !b.wants(t.n, (hi-lo)*perArray) {
			return nil, nil
		}
		if err := b.rows.load(d, lo, int(hi-lo)); err != nil {
			return nil, err
		}
		b.loaded = true
	}
	return &b.rows, nil
}

// dayOf returns the day of a sample.
func (s *numpySource) dayOf(p int64) *numpyDay {
	return s.days[sort.Search(len(s.days), func(i int) bool { return s.days[i].first > p })-1]
}

// decode fills samples at, at+1, ... of b with some of the rows. It reports whether all are well-formed.
func (s *numpySource) decode(b *Batch, at int, r *numpyRows, picks []int) (ok bool) {
	ok = true
	per, first := len(s.mods), 0
	ids := len(r.day.ids())
	for k := range ids {
		a := &r.day.arrays[k]
		mods := s.mods[first:][:a.columns]
		for i, row := range picks {
			to := b.IDs[(at+i)*per+first:][:len(mods)]
			if from := r.row(k, row); a.kind == npyInt32 {
				ok = mapIDs32(to, from, mods) && ok
			} else {
				ok = mapIDs64(to, from, mods) && ok
			}
		}
		first += a.columns
	}
	labels := r.day.labels()
	for i, row := range picks {
		to := (*[criteoDense]float32)(b.Dense[(at+i)*criteoDense:])
		from := (*[4 * criteoDense]byte)(r.row(ids, row))
		for j := range to {
			to[j] = math.Float32frombits(binary.LittleEndian.Uint32(from[4*j:]))
			ok = ok && to[j]-to[j] == 0
		}
		label := labels.kind.number(r.row(ids+1, row))
		b.Labels[at+i] = float32(label)
		ok = ok && (label == 0 || label == 1)
	}
	return ok
}

// mapIDs32 sets to to the rows of ids. It reports whether no id is negative.
func mapIDs32(to []uint32, from []byte, mods []modulo) bool {
	all := uint32(0)
	from = from[:4*len(to)]
	for j := range mods[:len(to)] {
		x := binary.LittleEndian.Uint32(from[4*j:])
		all |= x
		to[j] = mods[j].of32(x)
	}
	return int32(all) >= 0
}

// mapIDs64 is mapIDs32 for ids of 64 bits.
func mapIDs64(to []uint32, from []byte, mods []modulo) bool {
	all := uint64(0)
	from = from[:8*len(to)]
	for j := range mods[:len(to)] {
		x := binary.LittleEndian.Uint64(from[8*j:])
		all |= x
		to[j] = mods[j].of64(x)
	}
	return int64(all) >= 0
}

// numpyCheckedBytes is how many bytes of each day are checked when it is opened.
const numpyCheckedBytes = 64 << 20

// checkSamples checks the first samples of each day. With SkipBad it reads all, and lists those to skip.
func (s *numpySource) checkSamples(o *Options) error {
	var rows numpyRows
	for _, d := range s.days {
		n := min(d.n, max(1, numpyCheckedBytes/int64(d.sampleBytes())))
		if o.SkipBad {
			n = d.n
		}
		for at := int64(0); at < n; at += s.blockSamples {
			err := s.env.Do("read "+d.file, func() error { return rows.load(d, at, int(min(s.blockSamples, n-at))) })
			if err != nil {
				return err
			}
			for i := range rows.n {
				switch err := rows.findFault(i); {
				case err == nil:
				case !o.SkipBad:
					return err
				case len(s.bad) == maxBad:
					return fileErr(d.file, "more than %d of its samples are malformed; check data.format", maxBad)
				default:
					s.bad = append(s.bad, d.first+at+int64(i))
				}
			}
			if !o.SkipBad {
				continue // too short to show
			}
			if err := o.reportProgress("scan", d.first+at, s.samples); err != nil {
				return err
			}
		}
	}
	return nil
}
