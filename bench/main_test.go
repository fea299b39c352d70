package bench_test

import (
	"os"
	"testing"

	"github.com/ecrec/ecrec/internal/cli"
)

// asProgram, set in the environment, makes this binary the program: benchmarks start
// runs of it.
const asProgram = "ECREC_BENCH_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	if err := os.Setenv(asProgram, "yes"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
