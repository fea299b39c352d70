package cli

import (
	"testing"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/train"
)

// A run that a signal stopped names what is saved of it, and no more.
func TestSavedText(t *testing.T) {
	const all, none = "progress is saved; continue with --resume auto", "the model is saved"
	const topic, to = "kafka://a:1/t?tls=true&sasl=plain", "progress is saved up to the last commit that stream.to has; " +
		"continue from there with --resume "
	for _, c := range []struct {
		checkpoints, logs, topic string
		durable, rest            int64
		want                     string
	}{
		{"", "", "", 0, 0, none + "; without checkpoint.dir or store.path the run cannot be resumed"},
		{"", "", "file:a/b", 0, 0, to + "file:a/b"},
		{"", "", topic, 0, 0, to + "'" + topic + "'"},
		{"dir", "", topic, 0, 0, all},
		{"", "dir", topic, 30, 0, all},
		{"dir", "", "", 0, 0, all},
		{"", "dir", "", 30, 0, all},
		{"dir", "dir", "", 20, 10, all},
		{"", "dir", "", 2000, 10, "progress up to step 2,000 of 2,010 is saved in the logs of store.path; continue from there with --resume auto"},
		{"", "dir", "", 0, 30, none + "; the logs of store.path have nothing of the run, so it cannot be resumed"},
	} {
		cfg := &config.Config{}
		cfg.Job.SaveModel, cfg.Checkpoint.Dir, cfg.Store.Path = true, c.checkpoints, c.logs
		cfg.Stream.To = c.topic
		s := &session{cfg: cfg}
		if got := s.savedText(&train.Result{Durable: c.durable, NotDurable: c.rest}); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
