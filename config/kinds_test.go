package config

import (
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
		if refused := err != nil; refused != (kind == "dlrm") {
			t.Errorf("%s without a bottom MLP: %v", kind, err)
		}
	}
	_, err := Load(write(t, base), []string{"model.kind=wdl", "model.cross=full"})
	expect(t, err, `model.kind = "wdl" does not read it, only dcn does; leave it out`)
}
