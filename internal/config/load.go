package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// ErrInvalid is what every error of Load is.
var ErrInvalid = errors.New("invalid config")

// invalid is an error of the config: one line for a person.
type invalid string

func (e invalid) Error() string        { return string(e) }
func (e invalid) Is(target error) bool { return target == ErrInvalid }

// wrapped is an error of the config that another package found.
type wrapped struct{ error }

func (e wrapped) Is(target error) bool { return target == ErrInvalid }
func (e wrapped) Unwrap() error        { return e.error }

// Errorf is fmt.Errorf for what a config asks for and a later look, at data or
// memory, shows to be impossible: the error is ErrInvalid too.
func Errorf(format string, args ...any) error { return wrapped{fmt.Errorf(format, args...)} }

// maxFileBytes is more than any config needs: a device or a data file given by
// mistake is refused before it is read whole.
const maxFileBytes = 16 << 20

// source is where values come from, for messages.
type source struct {
	file string
	line map[string]int    // in the file
	set  map[string]string // the --set that gave a key
}

// at says where key was given, as far as is known.
func (s *source) at(key string) string {
	if set, ok := s.set[key]; ok {
		return "--set " + set
	}
	for k := key; ; {
		if n, ok := s.line[k]; ok {
			return fmt.Sprintf("%s:%d", s.file, n)
		}
		i := strings.LastIndexByte(k, '.')
		if i < 0 {
			return s.file
		}
		k = k[:i]
	}
}

// errorf is an error about key.
func (s *source) errorf(key, format string, args ...any) error {
	return invalid(s.at(key) + ": " + key + ": " + fmt.Sprintf(format, args...))
}

// Load reads the config file at path, applies sets ("key=value", later ones
// win), fills in what is left out, makes paths absolute and checks the whole. The
// run is one of one process.
func Load(path string, sets []string) (*Config, error) { return LoadFor(1, path, sets) }

// LoadFor is Load for a run of some processes, beside those of elastic.spares.
func LoadFor(processes int, path string, sets []string) (*Config, error) {
	return load(path, sets, func(int) int { return processes })
}

// LoadAmong is Load for a run of some processes, of which elastic.spares wait.
func LoadAmong(processes int, path string, sets []string) (*Config, error) {
	return load(path, sets, func(spares int) int { return processes - spares })
}

func load(path string, sets []string, processesFor func(spares int) int) (*Config, error) {
	doc, err := read(path)
	if err != nil {
		return nil, err
	}
	c := Default()
	src := &source{file: path, set: map[string]string{}}
	if err := decodeStrict(doc, c); err != nil {
		return nil, decodeError(path, doc, err)
	}
	src.line = lines(doc)
	for _, set := range sets {
		if err := apply(c, src, set); err != nil {
			return nil, err
		}
	}
	for _, table := range []string{"data", "model", "train"} {
		if !src.mentions(table) {
			return nil, invalid(fmt.Sprintf("%s: [%s] is missing: every run needs [data], [model] and [train]", path, table))
		}
	}
	processes := processesFor(c.Elastic.Spares)
	if processes < 1 {
		return nil, src.errorf("elastic.spares", "%d of %d processes would wait for the loss of another; start more", c.Elastic.Spares, processes+c.Elastic.Spares)
	}
	if !src.mentions("job.ranks") {
		c.Job.Ranks = processes
		if parts := c.Ranks.Servers + c.Ranks.Trainers; parts > 0 {
			c.Job.Ranks = parts + c.Ranks.Readers
		}
	}
	if err := c.resolve(path); err != nil {
		return nil, err
	}
	for _, check := range []func(*source) error{c.checkNames, c.checkSupported, c.checkValues} {
		if err := check(src); err != nil {
			return nil, err
		}
	}
	return c, c.checkProcesses(src, processes)
}

func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, invalid(path + ": no such config file")
	case err != nil:
		return nil, invalid(fmt.Sprintf("%s: cannot read the config: %v", path, err))
	case info.IsDir():
		return nil, invalid(path + ": is a folder; name the config file in it")
	case info.Size() > maxFileBytes:
		return nil, invalid(fmt.Sprintf("%s: %d bytes are too many for a config (limit %d); is this a data file?", path, info.Size(), maxFileBytes))
	}
	doc, err := os.ReadFile(path)
	if err != nil {
		return nil, invalid(fmt.Sprintf("%s: cannot read the config: %v", path, err))
	}
	return doc, nil
}

func decodeStrict(doc []byte, c *Config) error {
	return toml.NewDecoder(bytes.NewReader(doc)).DisallowUnknownFields().EnableUnmarshalerInterface().Decode(c)
}

// decodeError turns what the TOML decoder says about a document into one line.
func decodeError(where string, doc []byte, err error) error {
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
		first := unknown.Errors[0]
		line, _ := first.Position()
		key := strings.Join(first.Key(), ".")
		return invalid(fmt.Sprintf("%s:%d: unknown key %s; the nearest known key is %s", where, line, key, nearest(key)))
	}
	var bad *toml.DecodeError
	if !errors.As(err, &bad) {
		return invalid(fmt.Sprintf("%s: %v", where, err))
	}
	line, column := bad.Position()
	text := strings.TrimPrefix(bad.Error(), "toml: ")
	key := strings.Join(bad.Key(), ".")
	switch {
	case key == "":
		return invalid(fmt.Sprintf("%s:%d:%d: not valid TOML: %s", where, line, column, text))
	case strings.HasPrefix(text, "cannot decode TOML"):
		text = "want " + wants(strings.ToLower(key))
	}
	return invalid(fmt.Sprintf("%s:%d: %s: %s (the line is: %s)", where, line, key, text, lineOf(doc, line)))
}

// lineOf is line n, from 1, of a document, cut to a length fit for a message.
func lineOf(doc []byte, n int) string {
	const most = 80
	all := strings.Split(string(doc), "\n")
	if n < 1 || n > len(all) {
		return ""
	}
	line := strings.TrimSpace(all[n-1])
	if len(line) > most {
		line = line[:most] + "..."
	}
	return line
}

// mentions reports whether a key, or one under a table, was given anywhere.
func (s *source) mentions(table string) bool {
	if _, ok := s.line[table]; ok {
		return true
	}
	for key := range s.set {
		if key == table || strings.HasPrefix(key, table+".") {
			return true
		}
	}
	return false
}

// apply overrides one key by "key=value". The value is TOML; what is not TOML,
// or fits the key only as a string, is taken as a string.
func apply(c *Config, src *source, set string) error {
	key, value, ok := strings.Cut(set, "=")
	key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
	if !ok || key == "" {
		return invalid(fmt.Sprintf("--set %s: want key=value, like train.global_batch=4096", set))
	}
	if _, ok := known[key]; !ok {
		return invalid(fmt.Sprintf("--set %s: unknown key %s; the nearest known key is %s", set, key, nearest(key)))
	}
	quoted, err := toml.Marshal(map[string]string{"v": value})
	if err != nil {
		return invalid(fmt.Sprintf("--set %s: %v", set, err))
	}
	_, quotedValue, _ := strings.Cut(strings.TrimSpace(string(quoted)), "=")
	var first error
	for _, v := range []string{value, quotedValue} {
		if strings.ContainsAny(v, "\n\r") {
			continue // one --set is one value
		}
		doc := []byte(key + " = " + v)
		err := decodeStrict(doc, c)
		if err == nil {
			src.set[key] = set
			return nil
		}
		var bad *toml.DecodeError
		if errors.As(err, &bad) && len(bad.Key()) == 0 && first == nil {
			continue // not TOML: the quoted form says what is wrong
		}
		if first == nil {
			first = err
		}
	}
	text := "want " + wants(key)
	var bad *toml.DecodeError
	if errors.As(first, &bad) && !strings.HasPrefix(bad.Error(), "toml: cannot decode TOML") {
		text = strings.TrimPrefix(bad.Error(), "toml: ")
	}
	return invalid(fmt.Sprintf("--set %s: %s: %s", set, key, text))
}

// resolve fills in the defaults that depend on other values and makes paths
// absolute; relative ones start at the config file's folder.
func (c *Config) resolve(path string) error {
	whole, err := filepath.Abs(path)
	if err != nil {
		return invalid(fmt.Sprintf("%s: cannot tell the folder of the config: %v", path, err))
	}
	dir := filepath.Dir(whole)
	if c.Job.Name == "" {
		base := filepath.Base(whole)
		c.Job.Name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	if c.Job.Out == "" {
		c.Job.Out = filepath.Join("runs", c.Job.Name)
	}
	abs := func(p *string) {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	abs(&c.Job.Out)
	abs(&c.Model.InitFrom)
	abs(&c.Store.Path)
	abs(&c.Checkpoint.Dir)
	for _, files := range [][]string{c.Data.Train, c.Data.Eval} {
		for i := range files {
			abs(&files[i])
		}
	}
	for _, o := range []*Optimizer{&c.Optimizer.Dense, &c.Optimizer.Sparse} {
		if !math.IsNaN(o.Eps) {
			continue
		}
		o.Eps = 1e-10
		if o.Kind == "adam" {
			o.Eps = 1e-8
		}
	}
	return nil
}

// Resolved is the config as TOML with every value given: what a run writes
// beside its results. Load reads it back as the same Config.
func (c *Config) Resolved() []byte {
	var out bytes.Buffer
	enc := toml.NewEncoder(&out).EnableMarshalerInterface()
	enc.SetTablesInline(false)
	if err := enc.Encode(c); err != nil {
		panic("config: a Config must encode: " + err.Error())
	}
	return out.Bytes()
}
