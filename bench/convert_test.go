package bench

import (
	"bytes"
	"os/exec"
	"testing"
)

// Conversion has a ratio to each decompressor, and to the program gzip if there is one, whose CPU time counts.
func TestConvertDecompressors(t *testing.T) {
	_, err := exec.LookPath("gzip")
	for _, program := range []bool{err == nil, false} {
		if !program {
			t.Setenv("PATH", "")
		}
		var out bytes.Buffer
		r, err := convertBench.Run(&out, Options{Tiny: true, Args: []string{"samples=20000"}})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]float64{}
		for _, f := range r.Figures {
			found[f.Name] = f.Median
		}
		for _, way := range []string{"gzip -dc", "compress/gzip", "klauspost", "ecrec"} {
			for _, kind := range []string{"wall clock", "CPU"} {
				seconds := found[kind+" decompress: "+way]
				ratio := found[kind+" convert / decompress: "+way]
				if want := way != "gzip -dc" || program; (seconds > 1e-3) != want || (ratio > 0) != want {
					t.Errorf("%s, %s: %g s, ratio %g; gzip is there: %t", way, kind, seconds, ratio, program)
				}
			}
		}
	}
}
