package follow

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
)

// Replay applies all cuts that a topic has now, and compares their digests, without a folder. each is called after each of them, with the step, the
// digest of the model, and whether the run had one to compare with.
func Replay(e env.Env, topic stream.Topic, each func(step int64, digest string, compared bool)) error {
	n, err := topic.Partitions()
	if err != nil {
		return err
	}
	merge := stream.NewMerge(n)
	for i := range n {
		if err := readAll(topic, i, merge.Add); err != nil {
			return err
		}
	}
	f := &Follower{o: Options{Env: e, Topic: topic, At: Latest, Warn: func(string) {}, Report: func(Progress) {}}, last: -1}
	defer func() {
		if f.model != nil {
			f.model.free()
		}
	}()
	for c := merge.Next(); c != nil; c = merge.Next() {
		if f.model != nil && c.Lineage == f.model.at[0].Lineage && c.Step <= f.model.step {
			return fmt.Errorf("the cut of step %d follows on that of step %d", c.Step, f.model.step)
		}
		if err := f.applyCut(c); err != nil {
			return err
		}
		each(c.Step, f.model.digest().String(), f.model.want != "")
	}
	return nil
}

// readAll passes the epochs of a partition to add.
func readAll(topic stream.Topic, i int, add func(*stream.Epoch)) error {
	p, err := topic.Open(i)
	if err != nil {
		return err
	}
	defer p.Close()
	next, end, err := p.Bounds()
	if err != nil {
		return err
	}
	chain := stream.NewChain(i, stream.Start(next))
	for next < end {
		records, err := p.Read(next, 8<<20, 0)
		if err != nil || len(records) == 0 {
			return err
		}
		for _, r := range records {
			e, err := chain.Take(r)
			if err != nil {
				return err
			}
			if next = r.Offset + 1; e != nil {
				add(e)
			}
		}
	}
	return nil
}
