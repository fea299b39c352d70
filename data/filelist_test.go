package data

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
)

func TestListFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"day_10.gz", "day_2.gz", "day_1.gz", ".day_3.gz", "other", "w[1]", "w1", "w[2]/day_0.gz", "w2/day_9.gz",
		"folder/b", "folder/a", "folder/_SUCCESS", "folder/.crc", "folder/sub/c", "day=1/x", "day=2/y", "empty/_x"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, []byte("x"))
	}
	e := env.Real()
	for _, c := range []struct{ names, want []string }{
		{[]string{"day_*.gz"}, []string{"day_1.gz", "day_10.gz", "day_2.gz"}},
		{[]string{"other", "day_?.gz"}, []string{"other", "day_1.gz", "day_2.gz"}},
		{[]string{".day*"}, []string{".day_3.gz"}},
		{[]string{"w[1]"}, []string{"w[1]"}}, // a name that exists is no pattern
		{[]string{"w[12]"}, []string{"w1", "w2/day_9.gz"}},
		{[]string{"w[2]/day_*.gz"}, []string{"w[2]/day_0.gz"}},
		{[]string{"folder/"}, []string{"folder/a", "folder/b"}},
		{[]string{"folder", "folder"}, []string{"folder/a", "folder/b", "folder/a", "folder/b"}},
		{[]string{"day=*"}, []string{"day=1/x", "day=2/y"}},
		{[]string{"missing"}, []string{"missing"}}, // its opening reports it
	} {
		var names, want []string
		for _, name := range c.names {
			names = append(names, dir+"/"+name)
		}
		for _, name := range c.want {
			want = append(want, filepath.Join(dir, name))
		}
		if got, err := ListFiles(e, names); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", c.names, got, err, want)
		}
	}
	for name, want := range map[string]string{"none*": "no file matches this pattern", "none*/x": "no file matches", "a[": "is no pattern",
		"empty": "has no file of samples", "empty*": "no file matches"} {
		name = filepath.Join(dir, name)
		_, err := ListFiles(e, []string{name})
		checkError(t, err, name, want)
		openFails(t, fileOptions(t, name), name, want)
		if err := CheckFiles(e, []string{name}); err == nil {
			t.Errorf("CheckFiles accepts %s", name)
		}
	}
	t.Chdir(dir)
	if got, err := ListFiles(e, []string{"f*", "other"}); err != nil || !slices.Equal(got, []string{"folder/a", "folder/b", "other"}) {
		t.Errorf("relative: %q, %v", got, err)
	}
}

// A folder and a pattern read as their files in order, and have the same identity.
func TestOpenFolder(t *testing.T) {
	dir := t.TempDir()
	a := writeFile(t, filepath.Join(dir, "b.csv"), []byte("label,a,c\n0,5,x\n"))
	b := writeFile(t, filepath.Join(dir, "a.csv.gz"), []byte(gzipOf(t, []byte("c,label,a\ny,1,7\n"))))
	want := readAllOf(t, mustOpen(t, fileOptions(t, b, a)))
	list, err := Identify(env.Real(), []string{b, a})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, dir + "/*.csv*"} {
		got := readAllOf(t, mustOpen(t, fileOptions(t, name)))
		if !slices.Equal(got.Dense, want.Dense) || !slices.Equal(got.IDs, want.IDs) || want.Labels[0] != 1 {
			t.Errorf("%s: the samples differ", name)
		}
		if id, err := Identify(env.Real(), []string{name}); err != nil || id.String() != list.String() {
			t.Errorf("%s: identity %v, %v, want %v", name, id, err, list)
		}
	}
}

// A conversion in a folder that is read would be read as samples the next time.
func TestConversionAmongSources(t *testing.T) {
	o := textOptions(t, "y,a,c\n1,1,1\n", CSV{Label: "y", Dense: []string{"a"}, Categorical: []string{"c"}}, 5)
	dir := o.RecordDir
	for _, c := range []struct {
		name, cache string
		refused     bool
	}{
		{"", "", true}, {"/", "", true}, {"/*", "", true}, {"/t*", "", true}, {"/../*", "", true}, {"/train*", "/", true}, {"", "/../" + filepath.Base(dir), true},
		{"/*[vc]", "", true}, {"/*[vs]", "", true}, // the record file, the texts beside it
		{"/*.csv", "", false}, {"/train.csv", "", false}, {"", "/cache", false}, {"/*.csv", "/cache", false}, {"/[", "", false},
	} {
		o.Files, o.RecordDir = []string{dir + c.name}, dir+c.cache
		_, err := Convert(o, "")
		if got := err != nil && strings.Contains(err.Error(), "set data.cache to another folder"); got != c.refused || got && !errors.Is(err, ErrInput) {
			t.Errorf("train %q, cache %q: %v", c.name, c.cache, err)
		}
	}
}
