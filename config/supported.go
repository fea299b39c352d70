package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/model"
)

// refusal is a documented key, or a value of one, that a run cannot have.
type refusal struct {
	key   string
	asked bool   // the config has it
	why   string // the mistake, and its remedy
	whole bool   // no value but the default is possible: Resolved leaves the key out
}

// absentKeys lists the keys and values that are documented but not in this build. A change
// that adds a part deletes its lines here.
func (c *Config) absentKeys() []refusal {
	return []refusal{
		{"optimizer.dense.dense", c.Optimizer.Dense.Dense, "is for rows: dense parameters are updated at each step anyway; leave it out", true},
	}
}

// unreadKeys lists the keys of [model] that other kinds of model read and model.kind
// does not.
func (c *Config) unreadKeys() (list []refusal) {
	if _, ok := model.Find(c.Model.Kind); !ok {
		return nil // checkNames refuses it
	}
	defaults := defaultValues()
	for _, kv := range c.KeyValues() {
		key, ours := strings.CutPrefix(kv.Key, "model.")
		if !ours {
			continue
		}
		var readers []string
		for _, k := range model.Kinds {
			if k.Reads(key) {
				readers = append(readers, k.Name)
			}
		}
		if len(readers) > 0 && !in(c.Model.Kind, readers...) {
			why := fmt.Sprintf("model.kind = %q does not read it, only %s does; leave it out", c.Model.Kind, strings.Join(readers, ", "))
			list = append(list, refusal{kv.Key, kv.Value != defaults[kv.Key], why, true})
		}
	}
	return list
}

// refusals lists everything that this config cannot have.
func (c *Config) refusals() []refusal {
	return slices.Concat(c.absentKeys(), c.unreadKeys(), c.linearKeys())
}

// checkSupported refuses the keys and values of refusals that the config has.
func (c *Config) checkSupported(src *source) error {
	for _, r := range c.refusals() {
		if r.asked {
			return src.errorf(r.key, "%s", r.why)
		}
	}
	return nil
}

func in(s string, list ...string) bool {
	for _, e := range list {
		if s == e {
			return true
		}
	}
	return false
}
