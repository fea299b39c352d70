package bench

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Setting is one argument of a benchmark, KEY=VALUE. A benchmark declares all settings that it
// reads. Parsing, help and completion use these declarations.
type Setting struct {
	Name    string
	Default string   // the value of an absent setting; empty: computed, as Doc says
	Allowed string   // describes the accepted values
	Values  []string // all accepted values, for settings that have few
	Doc     string

	tiny  string                  // replaces Default in tiny runs; empty: it does not
	check func(value string) bool // reports whether a value is accepted; nil: every text is
}

// number declares a setting that is a whole number from low to high.
func number(name, byDefault string, low, high int, doc string) Setting {
	return Setting{Name: name, Default: byDefault, Allowed: fmt.Sprintf("a number from %d to %d", low, high), Doc: doc,
		check: func(value string) bool { return inRange(value, low, high) }}
}

// numbers declares a setting that is a list of such numbers, separated by commas.
func numbers(name, byDefault string, low, high int, doc string) Setting {
	return Setting{Name: name, Default: byDefault, Allowed: fmt.Sprintf("numbers from %d to %d, separated by commas", low, high), Doc: doc,
		check: func(value string) bool {
			return !slices.ContainsFunc(strings.Split(value, ","), func(s string) bool { return !inRange(s, low, high) })
		}}
}

// choice declares a setting with few values.
func choice(name, byDefault string, values []string, doc string) Setting {
	return Setting{Name: name, Default: byDefault, Allowed: oneOf(values), Values: values, Doc: doc,
		check: func(value string) bool { return slices.Contains(values, value) }}
}

// text declares a setting whose values the benchmark checks itself.
func text(name, byDefault, allowed, doc string) Setting {
	return Setting{Name: name, Default: byDefault, Allowed: allowed, Doc: doc}
}

// orTiny returns the setting with another default for tiny runs.
func (s Setting) orTiny(value string) Setting {
	s.tiny = value
	return s
}

func inRange(value string, low, high int) bool {
	n, err := strconv.Atoi(value)
	return err == nil && n >= low && n <= high
}

// oneOf lists values for people: "a, b or c".
func oneOf(values []string) string {
	last := len(values) - 1
	if last == 0 {
		return values[0]
	}
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

// WriteSettings writes the table of a benchmark's settings.
func (b Bench) WriteSettings(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprint(t, "  KEY\tDEFAULT\tVALUES\tMEANING\n")
	for _, s := range b.Settings {
		byDefault := s.Default
		if byDefault == "" {
			byDefault = "-"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", s.Name, byDefault, s.Allowed, s.Doc)
	}
	return t.Flush()
}

// options checks the arguments, and returns options whose settings can be read.
func (b Bench) options(o Options) (Options, error) {
	o.name, o.settings = b.Name, b.Settings
	for _, a := range o.Args {
		key, value, ok := strings.Cut(a, "=")
		s := b.setting(key)
		if !ok || s == nil {
			return o, settingError("%q is not a setting of %s; see ecrec bench %s --help", a, b.Name, b.Name)
		}
		if s.check != nil && !s.check(value) {
			return o, settingError("%s: want %s", a, s.Allowed)
		}
	}
	return o, nil
}

func (b Bench) setting(name string) *Setting {
	i := slices.IndexFunc(b.Settings, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &b.Settings[i]
}

// isSet reports whether a setting is among the arguments.
func (o Options) isSet(key string) bool {
	_, found := o.argument(key)
	return found
}

// argument returns the value that the first argument for key has.
func (o Options) argument(key string) (value string, found bool) {
	for _, a := range o.Args {
		if v, ok := strings.CutPrefix(a, key+"="); ok {
			return v, true
		}
	}
	return "", false
}

// text returns the value of a setting, or its default. It panics for a setting that the
// benchmark does not declare.
func (o Options) text(key string) string {
	i := slices.IndexFunc(o.settings, func(s Setting) bool { return s.Name == key })
	if i < 0 {
		panic("bench: setting " + key + " is not declared")
	}
	if v, found := o.argument(key); found {
		return v
	}
	if s := o.settings[i]; !o.Tiny || s.tiny == "" {
		return s.Default
	}
	return o.settings[i].tiny
}

// number returns the value of a setting declared by number, 0 if it has no default.
func (o Options) number(key string) int {
	n, _ := strconv.Atoi(o.text(key)) // checked by options; empty is 0
	return n
}

// numbers returns the values of a setting declared by numbers, nil if it has no default.
func (o Options) numbers(key string) (list []int) {
	if v := o.text(key); v != "" {
		for _, s := range strings.Split(v, ",") {
			n, _ := strconv.Atoi(s) // checked by options
			list = append(list, n)
		}
	}
	return list
}

// tempDir creates a folder in the folder of the setting dir.
func (o Options) tempDir() (string, error) {
	dir, err := os.MkdirTemp(o.text("dir"), "ecrec-bench-*")
	if err != nil {
		return "", settingError("dir=%s: %v", o.text("dir"), err)
	}
	o.Progress.addFolder(dir)
	return dir, nil
}

// Settings that several benchmarks have.
var (
	deviceSetting  = choice("device", "cpu", []string{"cpu", "cuda"}, "device to measure")
	dirSetting     = text("dir", "", "a folder", "where files are written. Default: the folder for temporary files")
	modeSetting    = text("mode", "auto", "as cache.mode", "cache mode")
	threadsSetting = number("threads", "0", 0, maxThreads, "threads of a process; 0: all cores")
	blasSetting    = text("blas", "exact", "as kernels.blas", "library for matrix products")
)

const (
	maxThreads = 1 << 16
	maxSteps   = 1<<31 - 1
)
