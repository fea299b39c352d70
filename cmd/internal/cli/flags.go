package cli

import "github.com/ecrec/ecrec/config"

// fileFlags name a config.
type fileFlags struct {
	Config string   `arg:"" complete:"config" help:"The run config, a TOML file."`
	Set    []string `name:"set" sep:"none" complete:"key" placeholder:"KEY=VALUE" help:"Override a config key (repeatable)."`
}

func (f fileFlags) loadConfig() (*config.Config, error) { return config.Load(f.Config, f.Set) }

// configFlags are the flags of commands that compute by a config.
type configFlags struct {
	fileFlags
	Device string `placeholder:"auto|cpu|cuda" help:"Override job.device."`
}

// allSets returns all settings that override the file's.
func (f configFlags) allSets() []string {
	if f.Device == "" {
		return f.Set
	}
	return append(f.Set[:len(f.Set):len(f.Set)], "job.device="+f.Device)
}
