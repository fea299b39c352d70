package data

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/ecrec/ecrec/internal/env"
)

// Files that are not as a writer makes them: they are refused, and take no more memory than others.

// A time in a unit that the format does not have yet is of no known type. It ended the process.
func TestParquetUnknownUnit(t *testing.T) {
	type row struct {
		Label int32  `parquet:"label"`
		At    int64  `parquet:"at,timestamp(microsecond)"`
		Hour  int64  `parquet:"hour,time(microsecond)"`
		C     string `parquet:"c"`
	}
	name := writeParquet(t, rand.New(rand.NewPCG(1, 1)), "a.parquet", []row{{1, 2, 3, "a"}, {0, 4, 5, "b"}})
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	unit := []byte{0x1C, 0x2C, 0, 0} // field 2, the unit, is a union; its field 2, microseconds, is a struct without fields
	if n := bytes.Count(b, unit); n != 2 {
		t.Fatalf("%d units, want those of two columns", n)
	}
	writeTo(t, name, bytes.ReplaceAll(b, unit, []byte{0x1C, 0x7C, 0, 0}))
	for _, column := range []string{"at", "hour"} {
		o := Options{Format: FormatParquet, Tables: []int64{9}, RecordDir: t.TempDir(), Files: []string{name}, CSV: CSV{Label: "label", Categorical: []string{column}}}
		openFails(t, o, fmt.Sprintf("column %q is of type TIME", column), "which is not read")
	}
	if in, err := Infer(env.Real(), name, "label"); err != nil || !strings.HasPrefix(in.Columns[1].Why, "of type TIME") {
		t.Errorf("%+v, %v", in, err)
	}
}

// A decimal with more digits after the point than any writer makes is of no known type. Its text took as much memory as the file named.
func TestParquetScale(t *testing.T) {
	for scale, want := range map[int]parquetAs{0: asDecimal, 2: asDecimal, mostScale: asDecimal, mostScale + 1: asUnknown, 1 << 30: asUnknown, -1: asUnknown} {
		if as := newParquetType(parquet.Decimal(scale, 18, parquet.Int64Type).Type()).as; as != want {
			t.Errorf("scale %d: type %d, want %d", scale, as, want)
		}
	}
}
