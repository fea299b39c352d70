package bench

import (
	"os"
	"testing"
)

func TestTryF(t *testing.T) {
	if _, err := faultKindsBench.Run(os.Stdout, Options{Tiny: true, Program: program, Args: []string{"kinds=" + oneOfAll()}}); err != nil {
		t.Fatal(err)
	}
}
func oneOfAll() string {
	s := ""
	for i, n := range faultKindNames() {
		if i > 0 {
			s += ","
		}
		s += n
	}
	return s
}
func TestTryL(t *testing.T) {
	if _, err := lostWorkBench.Run(os.Stdout, Options{Tiny: true, Program: program}); err != nil {
		t.Fatal(err)
	}
}
