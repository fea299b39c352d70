package data

import (
	"bufio"
	"encoding/binary"
	"io"

	"github.com/ecrec/ecrec/internal/env"
)

// SynthOptions describe the file that Synth writes.
type SynthOptions struct {
	Env      env.Env
	To       string // the file; replaced when it is there
	Tables   []int64
	Seed     uint64
	Law      string // one of Laws; empty: LawIndependent
	First    int64  // index of the first sample: training and evaluation data differ in it alone
	Samples  int64
	Progress func(Progress) error
}

// Synth writes samples [First, First + Samples) of the synthetic data of a seed
// as a criteo-bin file. Read back, they are the same samples bit for bit.
func Synth(o SynthOptions) error {
	schema, err := criteoSchema(Schema{Dense: criteoDense, Tables: o.Tables})
	if err != nil {
		return err
	}
	if o.Samples < 1 || o.First < 0 || o.First+o.Samples < o.First {
		return usageErr("%d samples from sample %d on cannot be written; both must be positive", o.Samples, o.First)
	}
	s, err := newSyntheticOf(schema, o.Seed, nil, o.Law)
	if err != nil {
		return err
	}
	progress := Options{Progress: o.Progress}
	return writeWhole(o.Env, o.To, func(w io.Writer) error {
		buf := bufio.NewWriterSize(w, 1<<20)
		for i := range o.Samples {
			if i%scanRecords == 0 {
				if err := progress.reportProgress("synth", i, o.Samples); err != nil {
					return err
				}
			}
			if _, err := buf.Write(s.record(o.First + i)); err != nil {
				return err
			}
		}
		return buf.Flush()
	})
}

// record is sample i as a criteo-bin record.
func (s *synthetic) record(i int64) []byte {
	var dense [criteoDense]int32
	var ids [criteoTables]uint32
	score, w := s.drawSample(uint64(i), &dense, ids[:])
	rec := make([]byte, 0, criteoBytes)
	rec = binary.LittleEndian.AppendUint32(rec, s.teacher.drawLabel(score, w))
	for _, x := range dense {
		rec = binary.LittleEndian.AppendUint32(rec, uint32(x))
	}
	for _, id := range ids {
		rec = binary.LittleEndian.AppendUint32(rec, id)
	}
	return rec
}
