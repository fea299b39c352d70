package data

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

var (
	speedFile  = flag.String("parquet", "", "the Parquet file whose reading TestParquetSpeed times: bench/parquet/compare.py")
	speedReads = flag.Int("reads", 5, "how often TestParquetSpeed reads the file")
)

// TestParquetSpeed times reading a file as samples, and converting it to a record file. Numbers are columns i1, i2, ...;
// categories c1, c2, ... It prints wall clock and CPU time in seconds.
func TestParquetSpeed(t *testing.T) {
	if *speedFile == "" {
		t.Skip("run by bench/parquet/compare.py")
	}
	o := Options{Env: env.Real(), Format: FormatParquet, Files: []string{*speedFile}, Threads: 2, CSV: CSV{Label: "label"}}
	for i := range criteoDense {
		o.CSV.Dense = append(o.CSV.Dense, fmt.Sprint("i", i+1))
	}
	for i := range criteoTables {
		o.CSV.Categorical = append(o.CSV.Categorical, fmt.Sprint("c", i+1))
	}
	o.Tables, _ = Tables("criteo-kaggle")
	recipe, err := NewRecipe(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("read", func(t *testing.T) {
		for range *speedReads {
			timed("read", func() {
				readRowValuesOf(t, RowOptions{Env: o.Env, Files: o.Files, Format: o.Format, Recipe: recipe, Threads: 2})
			})
		}
	})
	t.Run("convert", func(t *testing.T) {
		for range *speedReads {
			to := filepath.Join(t.TempDir(), "x.rec")
			timed("convert", func() {
				if _, err := Convert(o, to); err != nil {
					t.Fatal(err)
				}
			})
			os.Remove(to)
		}
	})
}

// readRowValuesOf reads all rows, and drops them.
func readRowValuesOf(t *testing.T, o RowOptions) {
	rows, err := OpenRows(o)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	p, err := rows.NewParser()
	if err != nil {
		t.Fatal(err)
	}
	var c RowChunk
	var b RowBatch
	for more := true; more; {
		if more, err = rows.Next(&c); err != nil {
			t.Fatal(err)
		}
		if !more {
			return
		}
		p.Begin(&c)
		for again := true; again; {
			again, _ = p.Parse(&b, c.chunk.rows, nil)
		}
	}
}

func timed(what string, do func()) {
	begin, cpu := time.Now(), cpuSeconds()
	do()
	fmt.Printf("%s %.4f %.4f\n", what, time.Since(begin).Seconds(), cpuSeconds()-cpu)
}

// cpuSeconds is the CPU time of the process.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
