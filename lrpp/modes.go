package lrpp

// Modes is the registry of cache modes. Config validation, the config reference and
// benchmarks read it. All modes give the same bits.
//
// To add a mode, add a Mode, teach Planner and an exchange to plan and move it, and
// add a line here.
var Modes = []CacheMode{
	{"none", Direct, "rows are fetched before a step, and gradients sent after it"},
	{"planned", Planned, "rows and gradients that the neighbouring steps do not need are sent while a step computes"},
	{"lrpp", Cached, "BagPipe's lookahead cache: trainers keep rows while the lookahead shows future uses"},
}

// CacheMode is a mode as a config names it.
type CacheMode struct {
	Name string // the value of cache.mode
	Mode Mode
	Doc  string // one line
}

// ModeOf returns the mode of a name.
func ModeOf(name string) (mode Mode, ok bool) {
	for _, m := range Modes {
		if m.Name == name {
			return m.Mode, true
		}
	}
	return 0, false
}

// ModeNames lists the names of all modes.
func ModeNames() (names []string) {
	for _, m := range Modes {
		names = append(names, m.Name)
	}
	return names
}
