package config

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestKindsDefaults checks the defaults that depend on model.kind, and that [] passes dense features on.
func TestKindsDefaults(t *testing.T) {
	file := strings.Replace(base, "top_mlp = [16, 1]\n", "", 1)
	for kind, want := range map[string]struct {
		top          []int
		layers, rank int
	}{"dlrm": {[]int{512, 256, 1}, 0, 0}, "wdl": {[]int{1}, 0, 0}, "dcn": {[]int{512, 256, 1}, 2, 8}} {
		c, err := Load(write(t, file), []string{"model.kind=" + kind})
		if err != nil {
			t.Fatal(err)
		}
		if m := c.Model; !slices.Equal(m.TopMLP, want.top) || m.CrossLayers != want.layers || m.CrossRank != want.rank {
			t.Errorf("%s: top_mlp %v, cross_layers %d, cross_rank %d, want %+v", kind, m.TopMLP, m.CrossLayers, m.CrossRank, want)
		}
		_, err = Load(write(t, file), []string{"model.kind=" + kind, "model.bottom_mlp=[]"})
		if refused := err != nil; refused != (kind == "dlrm") || refused && !strings.Contains(err.Error(), "model.bottom_mlp: is empty, but the data has") {
			t.Errorf("%s without a bottom MLP: %v", kind, err)
		}
	}
	for kind, want := range map[string]string{"dlrm": "set it to []", "wdl": "set it to []", "dcn": "set it to []", "deepfm": ""} {
		noDense := []string{"model.kind=" + kind, "model.tables=[5, 6]", `data.csv.categorical=["a", "b"]`, "data.format=csv"}
		_, err := Load(write(t, regexp.MustCompile(`(?m)^bottom_mlp.*$`).ReplaceAllString(file, "")), noDense)
		if refused := err != nil; refused != (kind != "deepfm") || refused && !strings.Contains(err.Error(), want) {
			t.Errorf("%s without columns of numbers: %v, want %q", kind, err, want)
		}
		if kind != "deepfm" {
			if _, err := Load(write(t, file), append(noDense, "model.bottom_mlp=[]")); err != nil {
				t.Errorf("%s without columns of numbers and bottom MLP: %v", kind, err)
			}
		}
	}
	_, err := Load(write(t, file), []string{"model.bottom_mlp=[]", "model.tables=[5]", `data.csv.categorical=["a"]`, "data.format=csv"})
	expect(t, err, `model.interaction: "dot" needs two vectors, and the data has one category and no numbers; name more columns in [data.csv], or use`)
	_, err = Load(write(t, base), []string{"model.kind=wdl", "model.cross=full"})
	expect(t, err, `model.kind = "wdl" does not read it, only dcn does; leave it out`)
}
