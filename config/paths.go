package config

import (
	"regexp"
	"strings"
)

// scheme is how the address of a store on a network begins.
var scheme = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*)://`)

// checkPaths refuses addresses where a path is meant: made absolute, "s3://bucket" would be the
// folder "s3:" beside the config.
func (c *Config) checkPaths(src *source) error {
	for _, p := range []struct {
		key   string
		paths []string
	}{
		{"job.out", []string{c.Job.Out}},
		{"data.cache", []string{c.Data.Cache}},
		{"data.train", c.Data.Train},
		{"data.eval", c.Data.Eval},
		{"model.init_from", []string{c.Model.InitFrom}},
		{"checkpoint.dir", []string{c.Checkpoint.Dir}},
		{"store.path", []string{c.Store.Path}},
	} {
		for _, path := range p.paths {
			if c.ReadsTopic() && p.key == "data.train" {
				continue // checkTopic
			}
			if p.key == "data.train" && strings.HasPrefix(path, "kafka://") {
				return src.errorf(p.key, "%q is a topic, and data.format is %q; set data.format = \"kafka\"", path, c.Data.Format)
			}
			if found := scheme.FindStringSubmatch(path); found != nil {
				return src.errorf(p.key, "%q: %s:// is not read or written here, only paths are; copy it to a disk, or mount it", path, found[1])
			}
		}
	}
	return nil
}

// replaceLength has a --set of train.iterations replace the file's train.epochs, and the reverse.
func (c *Config) replaceLength(src *source) {
	_, steps := src.set["train.iterations"]
	_, epochs := src.set["train.epochs"]
	switch {
	case steps && !epochs && c.Train.Iterations != 0:
		c.Train.Epochs = 0
	case epochs && !steps && c.Train.Epochs != 0:
		c.Train.Iterations = 0
	}
}
