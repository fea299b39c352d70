package follow

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/internal/atomicfile"
)

// Open begins with the newest checkpoint in the folder, or else with the newest base of the topic.
func Open(o Options) (f *Follower, err error) {
	if o.Report == nil {
		o.Report = func(Progress) {}
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	f = &Follower{o: o, last: -1, based: -1, firstBase: -1, right: -1, saved: o.Env.Now()}
	if f.lock, err = checkpoint.Hold(o.Env, o.Dir, time.Second); err != nil {
		return nil, err
	}
	err = o.Env.Do("remove leftovers", func() error { // of a follower that was killed
		return atomicfile.RemoveLeftovers(filepath.Join(o.Dir, positionsFile))
	})
	if err == nil {
		err = f.lock.RemoveLeftovers(o.Env)
	}
	if err == nil && o.Anew {
		err = f.dropFolder()
	} else if err == nil {
		err = f.loadNewest()
	}
	if err == nil && f.model == nil {
		if f.began, err = f.loadBase(); err != nil { // the topic may have its beginning
			f.o.Warn(fmt.Sprintf("no base can be used: %v", err))
			err = nil
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close frees the model.
func (f *Follower) Close() {
	f.dropModel()
	if f.bases != nil {
		f.bases.Close()
	}
	f.lock.Close()
}
