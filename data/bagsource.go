package data

import (
	"encoding/binary"
	"io"
	"math"
	"os"
	"sort"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/internal/env"
)

// bagWriter is the part of a recordWriter that only files of version 2 need.
type bagWriter struct {
	heap      []byte // of the block being filled
	from      []byte // of the chunk
	next      uint32 // the first id of the chunk that is not in a block
	entry     int
	positions []uint64 // of the blocks
	end       uint64   // of the last block
}

// beginFile begins an empty file.
func (g *bagWriter) beginFile(h *bagHeader) {
	if h.mask != nil {
		h.ids = 0
		g.positions, g.end, g.entry = g.positions[:0], recordHeaderBytes, entryBytes(h.weighted)
	}
}

// beginChunk takes the ids of a chunk, of which records are written.
func (g *bagWriter) beginChunk(heap, records []byte, size int) {
	if g.entry == 0 || len(records) == 0 {
		return
	}
	g.from, g.next = heap, binary.LittleEndian.Uint32(records[size-4:])
}

// addRecords moves the ids of records, which are in the block, to its heap. rest are the records of
// the chunk that follow.
func (g *bagWriter) addRecords(records, rest []byte, size int) {
	if g.entry == 0 || len(records) == 0 {
		return
	}
	le := binary.LittleEndian
	at := uint32(len(g.heap) / g.entry)
	for r := records; len(r) > 0; r = r[size:] {
		start := r[size-4:]
		le.PutUint32(start, le.Uint32(start)-g.next+at)
	}
	end := uint32(len(g.from) / g.entry)
	if len(rest) > 0 {
		end = le.Uint32(rest[size-4:])
	}
	g.heap = append(g.heap, g.from[int(g.next)*g.entry:int(end)*g.entry]...)
	g.next = end
}

// flushBags writes the block of a file of version 2.
func (w *recordWriter) flushBags() error {
	g, le := &w.bags, binary.LittleEndian
	n := uint64(len(w.block)) / uint64(w.head.recordBytes)
	body := make([]byte, bagPrefixBytes, bagPrefixBytes+len(w.block)+len(g.heap)+trailerBytes)
	le.PutUint64(body, uint64(bagPrefixBytes+len(w.block)+len(g.heap)+trailerBytes))
	le.PutUint64(body[8:], n)
	body = append(append(body, w.block...), g.heap...)
	body = w.next.appendTo(body)
	err := w.env.Do("write "+w.file.Name(), func() error {
		_, err := w.file.WriteAt(body, int64(g.end))
		return err
	})
	g.positions = append(g.positions, g.end)
	g.end += uint64(len(body))
	w.head.bags.ids += uint64(len(g.heap)/g.entry) + n*w.head.bags.singles()
	w.block, g.heap = w.block[:0], g.heap[:0]
	return err
}

// mostBagBlock bounds the size of a block that a conversion resumes after.
const mostBagBlock = 1 << 32

// resumeBags finds the last complete block of a file of version 2, of which the header is written.
func (w *recordWriter) resumeBags() error {
	g, l, le := &w.bags, w.head.blockLayout(), binary.LittleEndian
	prefix := make([]byte, bagPrefixBytes)
	least := uint64(l.blockBytes(l.blockRecords)) + bagPrefixBytes
	for {
		if _, err := w.file.ReadAt(prefix, int64(g.end)); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		n := le.Uint64(prefix)
		if n < least || n > mostBagBlock || le.Uint64(prefix[8:]) != uint64(l.blockRecords) { // the last block may be smaller
			break
		}
		block := make([]byte, n)
		if _, err := w.file.ReadAt(block, int64(g.end)); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if l.checkBlock("", 0, block) != nil {
			break
		}
		w.next = decodeTrailer(block)
		w.head.samples += uint64(l.blockRecords)
		w.head.bags.ids += (n-least)/uint64(g.entry) + uint64(l.blockRecords)*w.head.bags.singles()
		g.positions = append(g.positions, g.end)
		g.end += n
	}
	w.head.skipped = uint64(w.next.skipped)
	w.drop = w.next.good
	return w.file.Truncate(int64(g.end))
}

// writeIndex writes the index, and its place to the header that follows.
func (w *recordWriter) writeIndex() error {
	g, le := &w.bags, binary.LittleEndian
	w.head.bags.indexAt = g.end
	var index []byte
	for _, at := range g.positions {
		index = le.AppendUint64(index, at)
	}
	index = le.AppendUint64(index, xxh3.Hash(index))
	return w.env.Do("write "+w.file.Name(), func() error {
		_, err := w.file.WriteAt(index, int64(g.end))
		return err
	})
}

// bagFile is one file of version 2.
type bagFile struct {
	file      *os.File
	name      string
	head      recordHeader
	first, n  int64    // samples
	positions []uint64 // of the blocks, and their end
}

// openBagFile opens a file, and reads its index.
func openBagFile(o *Options, name string) (f *bagFile, err error) {
	file, size, h, err := readRecordHeader(o.Env, name)
	if err != nil {
		return nil, err
	}
	f = &bagFile{file: file, name: name, head: h, n: int64(h.samples)}
	switch {
	case h.bags.mask == nil:
		err = fileErr(name, "its samples have no bags, those of the files before do")
	case h.samples == 0:
		err = fileErr(name, "the record file is not complete; convert its sources again; the conversion resumes where it stopped")
	case h.bags.indexAt > uint64(size) || size != h.fileBytes():
		err = fileErr(name, "the record file has %d bytes, and must have %d; delete it to convert the sources again", size, h.fileBytes())
	default:
		err = o.Env.Do("read "+name, f.readIndex)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return f, nil
}

// readIndex reads and checks the positions of the blocks.
func (f *bagFile) readIndex() error {
	le, at := binary.LittleEndian, f.head.bags.indexAt
	index := make([]byte, f.head.fileBytes()-int64(at))
	if _, err := f.file.ReadAt(index, int64(at)); err != nil {
		return err
	}
	body := index[:len(index)-8]
	damaged := le.Uint64(index[len(body):]) != xxh3.Hash(body)
	end := uint64(recordHeaderBytes)
	for ; len(body) > 0; body = body[8:] {
		p := le.Uint64(body)
		damaged = damaged || p < end || p >= at
		f.positions = append(f.positions, p)
		end = p
	}
	if damaged {
		return fileErr(f.name, "the record file's index is damaged; delete it to convert the sources again")
	}
	f.positions = append(f.positions, at)
	return nil
}

// bagSource is a Source of record files of version 2. A Read loads and checks each block that it
// needs once.
type bagSource struct {
	env     env.Env
	schema  Schema
	files   []*bagFile
	samples int64
	skipped int64
	codec   *csvCodec
	raw     bool // samples are read as the record file has them; see rawCodec
}

// openBags opens record files of version 2 as one Source.
func openBags(o *Options, names []string) (_ Source, err error) {
	s := &bagSource{env: o.Env, schema: o.schema(0)}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	ids := uint64(0)
	for _, name := range names {
		f, err := openBagFile(o, name)
		if err != nil {
			return nil, err
		}
		f.first = s.samples
		s.files = append(s.files, f)
		s.samples += f.n
		s.skipped += int64(f.head.skipped)
		ids += f.head.bags.ids
		first := &s.files[0].head
		if h := &f.head; int(h.tables) != s.schema.Features() {
			return nil, fileErr(name, "its samples have %d categorical features, but model.tables names %d tables", h.tables, s.schema.Features())
		} else if h.kind != first.kind || h.dense != first.dense || h.bags.weighted != first.bags.weighted {
			return nil, fileErr(name, "its samples are not of the same kind as those of %s", names[0])
		}
	}
	kind := s.files[0].head.kind
	s.schema.Dense, s.schema.SampleWeights = int(s.files[0].head.dense), kind == recordWeighted
	s.schema.IDs = float64(ids) / float64(s.samples)
	if o.raw && kind == recordScaled {
		return nil, noTexts(names[0])
	}
	if o.raw {
		s.codec, s.raw = &csvCodec{kind: kind, dense: make([]numberMap, s.schema.Dense)}, true
		return s, nil
	}
	r, err := o.recipeOf(kind, s.schema.Dense)
	if err != nil {
		return nil, err
	}
	s.schema.Tables = r.Schema().Tables
	if err := s.schema.checkLimits(); err != nil {
		return nil, err
	}
	s.codec = newCSVCodec(r, kind)
	return s, nil
}

func (s *bagSource) Schema() Schema { return s.schema }
func (s *bagSource) Len() int64     { return s.samples }
func (s *bagSource) Skipped() int64 { return s.skipped }

func (s *bagSource) Close() error {
	var first error
	for _, f := range s.files {
		if err := f.file.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// bagBlock is a block in memory.
type bagBlock struct{ records, heap []byte }

func (s *bagSource) Read(b *Batch, idx []int64) error {
	b.beginBags(len(idx), &s.schema)
	return s.env.Do("read "+s.files[0].name, func() error {
		blocks := b.read.blocks
		if blocks == nil {
			blocks = new(blockCache)
		}
		for at, i := range idx {
			if i < 0 || i >= s.samples {
				return usageErr("sample %d is out of range; there are %d", i, s.samples)
			}
			f := s.files[sort.Search(len(s.files), func(k int) bool { return s.files[k].first > i })-1]
			i -= f.first
			block, err := f.findBlock(blocks, i/int64(f.head.blockRecords))
			if err != nil {
				return err
			}
			size, bags := int64(f.head.recordBytes), &f.head.bags
			rec := block.records[i%int64(f.head.blockRecords)*size:][:size]
			decode := s.codec.decodeBags
			if s.raw {
				decode = s.codec.decodeRawBags
			}
			if !decode(b, at, rec, block.heap, bags.mask, bags.weighted) {
				return fileErr(f.name, "record %d does not hold a sample; delete the file to convert the sources again", i+1)
			}
		}
		return nil
	})
}

// findBlock returns a block, of a cache or of the file.
func (f *bagFile) findBlock(blocks *blockCache, block int64) (bagBlock, error) {
	l := f.head.blockLayout()
	records := min(l.blockRecords, f.n-block*l.blockRecords)
	b := blocks.findPlace(f, block, records)
	records *= l.recordBytes
	if !b.loaded {
		b.body = grown(b.body, int(f.positions[block+1]-f.positions[block]))
		if err := f.loadBlock(block, records, b.body); err != nil {
			return bagBlock{}, err
		}
		b.loaded = true
	}
	body := b.body[bagPrefixBytes : len(b.body)-trailerBytes]
	return bagBlock{body[:records], body[records:]}, nil
}

// loadBlock reads and checks a block with a number of bytes of records.
func (f *bagFile) loadBlock(block, records int64, body []byte) error {
	if _, err := f.file.ReadAt(body, int64(f.positions[block])); err == io.EOF {
		return fileErr(f.name, "it became shorter while in use")
	} else if err != nil {
		return err
	}
	if int64(len(body)) < bagPrefixBytes+records+trailerBytes {
		return fileErr(f.name, "block %d is damaged; delete the file to convert the sources again", block)
	}
	l := f.head.blockLayout()
	return l.checkBlock(f.name, block, body)
}

// decodeBags appends a record of version 2 to b, as sample at. The ids of its bags, of a mask, are in
// the heap. It reports whether the record holds a sample.
func (c *csvCodec) decodeBags(b *Batch, at int, rec, heap []byte, mask []bool, weighted bool) bool {
	le := binary.LittleEndian
	entry := uint64(entryBytes(weighted))
	start := uint64(le.Uint32(rec[len(rec)-4:]))
	label := math.Float32frombits(le.Uint32(rec))
	if label != 0 && label != 1 {
		return false
	}
	b.Labels[at] = label
	c.decodeWeight(b, at, rec)
	rec = rec[c.kind.headBytes():]
	for j := range c.dense {
		b.Dense[at*len(c.dense)+j] = c.dense[j].mapNumber(math.Float32frombits(le.Uint32(rec[4*j:])))
	}
	rec = rec[4*len(c.dense):]
	for j, bag := range mask {
		slot, ids := le.Uint64(rec[8*j:]), &c.ids[j]
		if !bag {
			b.IDs = append(b.IDs, ids.mapHash(slot))
			if weighted {
				b.Weights = append(b.Weights, 1)
			}
		} else {
			first, n := start+uint64(uint32(slot)), slot>>32
			if (first+n)*entry > uint64(len(heap)) {
				return false
			}
			ids.appendBag(b, heap[first*entry:][:n*entry], weighted)
		}
		b.Offsets = append(b.Offsets, int32(len(b.IDs)))
	}
	return true
}

// decodeRawBags is decodeBags for a source of raw samples: numbers into Batch.Dense, NaN if they are missing, and
// the hashes of ids into Batch.hashes.
func (c *csvCodec) decodeRawBags(b *Batch, at int, rec, heap []byte, mask []bool, weighted bool) bool {
	le, entry := binary.LittleEndian, uint64(entryBytes(weighted))
	start := uint64(le.Uint32(rec[len(rec)-4:]))
	b.Labels[at] = math.Float32frombits(le.Uint32(rec))
	c.decodeWeight(b, at, rec)
	rec = rec[c.kind.headBytes():]
	for j := range c.dense {
		b.Dense[at*len(c.dense)+j] = math.Float32frombits(le.Uint32(rec[4*j:]))
	}
	rec = rec[4*len(c.dense):]
	b.hashes = b.hashes[:b.Offsets[len(b.Offsets)-1]]
	for j, bag := range mask {
		slot := le.Uint64(rec[8*j:])
		if !bag {
			b.hashes = append(b.hashes, slot)
		} else {
			first, n := start+uint64(uint32(slot)), slot>>32
			if (first+n)*entry > uint64(len(heap)) {
				return false
			}
			for e := heap[first*entry:][:n*entry]; len(e) > 0; e = e[entry:] {
				b.hashes = append(b.hashes, le.Uint64(e))
			}
		}
		b.Offsets = append(b.Offsets, int32(len(b.hashes)))
	}
	return true
}
