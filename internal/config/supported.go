package config

import "fmt"

// checkSupported refuses what is documented but not in this build. It is the one
// list of such things: whoever adds a part deletes its lines here.
func (c *Config) checkSupported(src *source) error {
	for _, u := range []struct {
		asked   bool
		key     string
		value   any
		instead string
	}{
		{c.Data.Format == "avazu-csv", "data.format", c.Data.Format, `use "csv" and name the columns in [data.csv]`},
		{c.Model.Kind != "dlrm", "model.kind", c.Model.Kind, `use "dlrm"`},
		{c.Store.Tier != "dram", "store.tier", c.Store.Tier, `use "dram"`},
		{c.Store.Path != "", "store.path", c.Store.Path, "leave it out: rows live in memory"},
		{c.Store.DRAMBytes != 0, "store.dram_bytes", c.Store.DRAMBytes, "leave it out: rows live in memory"},
		{c.Checkpoint.Kind == "incremental", "checkpoint.kind", c.Checkpoint.Kind, `use "full"`},
		{c.Stream.To != "", "stream.to", c.Stream.To, "leave it out"},
		{c.Metrics.Listen != "", "metrics.listen", c.Metrics.Listen, "leave it out: metrics.jsonl in job.out has the figures"},
	} {
		if u.asked {
			value := fmt.Sprintf("%q", fmt.Sprint(u.value))
			if u.value == "" {
				value = "this"
			}
			return src.errorf(u.key, "%s is not in this version; %s", value, u.instead)
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
