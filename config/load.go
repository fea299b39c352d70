package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/regular"
	"github.com/ecrec/ecrec/model"
)

// pipeName is the file name of a config that is read from a pipe. It gives the job its name.
// Since it is relative, paths begin at the working directory.
const pipeName = "run.toml"

// maxFileBytes is more than any config needs. A device or a data file given by mistake
// is refused after that many bytes.
const maxFileBytes = 16 << 20

// Load reads the config file at path, applies sets ("key=value", later ones win), fills
// in defaults, makes paths absolute and checks the result, for a run of one process.
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
	doc, pipe, err := read(path)
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
	c.replaceLength(src)
	for _, table := range []string{"data", "model", "train"} {
		if !src.mentions(table) {
			return nil, invalid(fmt.Sprintf("%s: [%s] is missing: every run needs [data], [model] and [train]", path, table))
		}
	}
	processes := processesFor(c.Elastic.Spares)
	if processes < 1 {
		return nil, src.errorf("elastic.spares", "%d of %d processes would wait for the loss of another; start more",
			c.Elastic.Spares, processes+c.Elastic.Spares)
	}
	if !src.mentions("job.ranks") {
		c.Job.Ranks = processes
		if parts := c.Ranks.Servers + c.Ranks.Trainers; parts > 0 {
			c.Job.Ranks = parts + c.Ranks.Readers
		}
	}
	file := path
	if pipe {
		file = pipeName
		if processes > 1 {
			return nil, invalid(path + ": is a pipe, which one process can read, and each of a job's processes reads the config; write it to a file")
		}
	}
	if err := c.checkPaths(src); err != nil {
		return nil, err
	}
	if err := c.resolveDefaults(file, src); err != nil {
		return nil, err
	}
	for _, check := range []func(*source) error{c.checkSupported, c.checkNames, c.resolveTables, c.checkValues} {
		if err := check(src); err != nil {
			return nil, err
		}
	}
	return c, c.checkProcesses(src, processes)
}

// piped holds the configs read from pipes, by name. A pipe can be read only once.
var piped sync.Map

// read reads a config file. A pipe, as a shell's <(...) is, is read to its end.
func read(path string) (doc []byte, pipe bool, err error) {
	if doc, ok := piped.Load(path); ok {
		return doc.([]byte), true, nil
	}
	f, info, err := regular.OpenAny(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, invalid(path + ": no such config file")
	case err != nil:
		return nil, false, invalid(fmt.Sprintf("%s: cannot read the config: %v", path, err))
	}
	defer f.Close()
	pipe = info.Mode()&fs.ModeNamedPipe != 0
	switch {
	case info.IsDir():
		return nil, false, invalid(path + ": is a folder; name the config file in it")
	case !pipe && !info.Mode().IsRegular():
		return nil, false, invalid(path + ": is neither a file nor a pipe; name a config file")
	}
	doc, err = io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, false, invalid(fmt.Sprintf("%s: cannot read the config: %v", path, err))
	case len(doc) > maxFileBytes:
		return nil, false, invalid(fmt.Sprintf("%s: more than %d bytes are too many for a config; is this a data file?", path, maxFileBytes))
	case pipe && len(doc) == 0:
		return nil, false, invalid(path + ": the pipe is empty; start the process that writes to it first")
	case pipe:
		piped.Store(path, doc)
	}
	return doc, pipe, nil
}

// unknown is the first key of a document that does not exist. TOML's decoder could find such
// keys too, in a time that grows with the square of their number.
type unknown struct {
	key  string
	line int
}

func (u unknown) Error() string {
	return fmt.Sprintf("unknown key %s; the nearest known key is %s", clip(u.key), nearest(u.key))
}

func decodeStrict(doc []byte, c *Config) error {
	if key, line := unknownKey(doc); key != "" {
		return unknown{key, line}
	}
	return toml.NewDecoder(bytes.NewReader(doc)).EnableUnmarshalerInterface().Decode(c)
}

// Parse reads a document and adds defaults. It checks few values, and leaves paths as they are.
func Parse(doc []byte) (*Config, error) {
	c := Default()
	if err := decodeStrict(doc, c); err != nil {
		return nil, decodeError("config", doc, err)
	}
	src := &source{file: "config", set: map[string]string{}, line: lines(doc)}
	c.Optimizer.resolveDefaults(src) // a recipe leaves out the keys of [optimizer.linear] that equal those of [optimizer.sparse]
	return c, c.resolveTables(src)
}

// decodeError turns an error of the TOML decoder into one line.
func decodeError(where string, doc []byte, err error) error {
	if u := (unknown{}); errors.As(err, &u) {
		return invalid(fmt.Sprintf("%s:%d: %v", where, u.line, u))
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
	all := strings.Split(string(doc), "\n")
	if n < 1 || n > len(all) {
		return ""
	}
	return clip(strings.TrimSpace(all[n-1]))
}

// clip cuts a text to a length fit for a message.
func clip(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// apply overrides one key by "key=value". The value is TOML. If it does not parse, or
// fits the key only as a string, it is taken as a string.
func apply(c *Config, src *source, set string) error {
	key, value, ok := strings.Cut(set, "=")
	key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
	if !ok || key == "" {
		return invalid(fmt.Sprintf("--set %s: want key=value, like train.global_batch=4096", set))
	}
	if _, ok := known[key]; !ok {
		return invalid(fmt.Sprintf("--set %s: unknown key %s; the nearest known key is %s", clip(set), clip(key), nearestOf(key, Keys())))
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
			continue // not TOML: the error of the quoted form is the better one
		}
		if first == nil {
			first = err
		}
	}
	text := "want " + wants(key)
	if t := known[key]; t.Kind() == reflect.Struct && !slices.Contains(Keys(), key) {
		text = "is a table; the nearest key is " + nearestOf(key, Keys())
	}
	var bad *toml.DecodeError
	if errors.As(first, &bad) && !strings.HasPrefix(bad.Error(), "toml: cannot decode TOML") {
		text = strings.TrimPrefix(bad.Error(), "toml: ")
	}
	return invalid(fmt.Sprintf("--set %s: %s: %s", set, key, text))
}

// resolveDefaults fills in the defaults that depend on other values and makes paths
// absolute; relative ones start at the config file's folder.
func (c *Config) resolveDefaults(path string, src *source) error {
	whole, err := filepath.Abs(path)
	if err != nil {
		return invalid(fmt.Sprintf("%s: cannot find the folder of the config: %v", path, err))
	}
	dir := filepath.Dir(whole)
	if c.Job.Name == "" {
		base := filepath.Base(whole)
		c.Job.Name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	if c.Job.Out == "" {
		c.Job.Out = filepath.Join("runs", c.Job.Name)
	}
	if format, ok := data.FindFormat(c.Data.Format); ok && format.Named != nil {
		c.Data.CSV.setNamed(format.Named, src)
	}
	if (c.readsNoFiles() || c.ReadsTopic()) && !src.mentions("data.shuffle") {
		c.Data.Shuffle = "none"
	}
	abs := func(p *string) {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	c.resolveModel(src)
	abs(&c.Job.Out)
	abs(&c.Data.Cache)
	if c.Checkpoint.Dir == "" && c.Checkpoint.Every != (Interval{}) {
		c.Checkpoint.Dir = filepath.Join(c.Job.Out, "checkpoints")
	}
	if c.Store.Path == "" && c.Store.Tier == "file" {
		c.Store.Path = filepath.Join(c.Job.Out, "store")
	}
	abs(&c.Model.InitFrom)
	abs(&c.Store.Path)
	abs(&c.Checkpoint.Dir)
	abs(&c.Metrics.Textfile)
	if folder, ok := strings.CutPrefix(c.Stream.To, "file:"); ok {
		abs(&folder)
		c.Stream.To = "file:" + folder
	}
	for _, files := range [][]string{c.Data.Train, c.Data.Eval} {
		for i := range files {
			_, split, _ := data.ParseSplit(files[i])
			folder, isTopic := strings.CutPrefix(files[i], "file:")
			switch {
			case split || c.ReadsTopic() && strings.HasPrefix(files[i], "kafka://"):
			case c.ReadsTopic() && isTopic:
				abs(&folder)
				files[i] = "file:" + folder
			default:
				abs(&files[i])
			}
		}
	}
	c.Optimizer.resolveDefaults(src)
	return nil
}

// resolveModel fills in the defaults that depend on the kind of model.
func (c *Config) resolveModel(src *source) {
	m := &c.Model
	kind, _ := model.Find(m.Kind)
	if !src.mentions("model.batch_norm") {
		m.BatchNorm = kind.BatchNorm
	}
	if kind.TopMLP != nil && !src.mentions("model.top_mlp") {
		m.TopMLP = kind.TopMLP
	}
	if kind.Reads("cross_layers") && !src.mentions("model.cross_layers") {
		m.CrossLayers = defaultCrossLayers
	}
	if kind.Reads("cross_rank") && !src.mentions("model.cross_rank") {
		m.CrossRank = defaultCrossRank
	}
}

// The cross layers of kinds that have them. Other kinds have 0, in recipes too.
const (
	defaultCrossLayers = 2
	defaultCrossRank   = 8
)

// Resolved is the config as TOML with every value, except the keys that this build refuses. A run
// writes it beside its results. Load reads it back as the same Config.
func (c *Config) Resolved() []byte {
	refused := map[string]bool{}
	for _, r := range c.refusals() {
		refused[r.key] = r.whole
	}
	var out bytes.Buffer
	table := ""
	for _, kv := range c.KeyValues() {
		if refused[kv.Key] {
			continue
		}
		dot := strings.LastIndexByte(kv.Key, '.')
		if in := kv.Key[:dot]; in != table {
			if table != "" {
				out.WriteByte('\n')
			}
			table = in
			fmt.Fprintf(&out, "[%s]\n", table)
		}
		fmt.Fprintf(&out, "%s = %s\n", kv.Key[dot+1:], kv.Value)
	}
	return out.Bytes()
}
