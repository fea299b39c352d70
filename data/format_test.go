package data_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/data/formattest"
	"github.com/ecrec/ecrec/data/numpytest"
	"github.com/ecrec/ecrec/internal/env"
)

// names of the columns of the csv files.
var csvColumns = data.CSV{Label: "clicked", Dense: []string{"age", "price"}, Categorical: []string{"city", "shop", "brand"}}

// suites are the formats, each with a way to write files.
func suites() map[string]formattest.Suite {
	criteo := make([]int64, 26)
	for i := range criteo {
		criteo[i] = int64(3 + i*i*97)
	}
	three := []int64{1000, 3, 70}
	csv := data.Options{Format: data.FormatCSV, Tables: three, CSV: csvColumns}
	avazuFormat, _ := data.FindFormat(data.FormatAvazuCSV)
	avazu := data.Options{Format: data.FormatAvazuCSV, CSV: *avazuFormat.Named}
	for i := range avazu.CSV.Categorical {
		avazu.Tables = append(avazu.Tables, int64(2+i*i*50))
	}
	parquetFile := csv
	parquetFile.Format = data.FormatParquet
	record := csv
	record.Format = data.FormatRecord
	return map[string]formattest.Suite{
		data.FormatSynthetic: {Options: data.Options{Format: data.FormatSynthetic, Tables: three, Seed: 4}},
		data.FormatCSV: {Options: csv, Line: func(i int) int64 { return int64(i) + 2 },
			Write: func(t *testing.T, path string, all []formattest.Sample) { write(t, path, csvText(all)) }},
		data.FormatCriteoTSV: {Options: data.Options{Format: data.FormatCriteoTSV, Tables: criteo},
			Line:  func(i int) int64 { return int64(i) + 1 },
			Write: func(t *testing.T, path string, all []formattest.Sample) { write(t, path, tsvText(all)) }},
		data.FormatCriteoBin: {Options: data.Options{Format: data.FormatCriteoBin, Tables: criteo},
			Write: func(t *testing.T, path string, all []formattest.Sample) { write(t, path, binRecords(all)) }},
		data.FormatCriteoNumPy: {Options: data.Options{Format: data.FormatCriteoNumPy, Tables: three}, Ending: "_sparse_multi_hot.npz",
			Line: func(i int) int64 { return int64(i) + 1 }, Write: writeDay},
		data.FormatAvazuCSV: {Options: avazu, Line: func(i int) int64 { return int64(i) + 2 },
			Write: func(t *testing.T, path string, all []formattest.Sample) { write(t, path, avazuText(all)) }},
		data.FormatParquet: {Options: parquetFile, Write: writeParquet},
		data.FormatRecord: {Options: record, NeverBad: true,
			Write: func(t *testing.T, path string, all []formattest.Sample) {
				write(t, path+".csv", csvText(all))
				o := csv
				o.Env, o.Files = env.Real(), []string{path + ".csv"}
				if _, err := data.Convert(o, path); err != nil {
					t.Fatal(err)
				}
			}},
	}
}

// TestFormats runs the suites of all formats, in short tests of three.
func TestFormats(t *testing.T) {
	all, order := suites(), rand.Perm(len(data.Formats))
	if testing.Short() {
		order = order[:3]
	}
	for _, i := range order {
		f := data.Formats[i]
		t.Run(f.Name, func(t *testing.T) {
			if f.Topic {
				t.Skip("train reads it: TestTopicEqualsFile")
			}
			s, ok := all[f.Name]
			if !ok {
				t.Fatalf("add a suite of %s", f.Name)
			}
			formattest.Run(t, s)
		})
	}
}

// TestFormatsInDocs checks that docs/data.md describes each format, and names those of text.
func TestFormatsInDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/data.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Formats\n")
	table, _, _ = strings.Cut(table, "## Values\n")
	_, text, _ := strings.Cut(string(page), "Text (")
	text, _, _ = strings.Cut(text, ")")
	var rows, converted []string
	for _, f := range data.Formats {
		if strings.Contains(table, "\n| `"+f.Name+"` |") {
			rows = append(rows, f.Name)
		}
		if f.IsConverted() {
			converted = append(converted, "`"+f.Name+"`")
		}
	}
	if !slices.Equal(rows, data.FormatNames()) {
		t.Errorf("the table of docs/data.md has %q of the formats %q", rows, data.FormatNames())
	}
	if want := strings.Join(converted, ", "); text != want {
		t.Errorf("docs/data.md names the text formats %s, want %s", text, want)
	}
}

// writeDay writes samples as the files of a day, of one id for each feature. Numbers are written as they enter the model.
func writeDay(t *testing.T, path string, all []formattest.Sample) {
	d := numpytest.Day{IDs: make([][][]int64, len(all[0].IDs))}
	for i, x := range all {
		numbers := make([]float32, len(x.Dense))
		for j, v := range x.Dense {
			numbers[j] = float32(math.Log1p(float64(max(v, 0))))
		}
		d.Numbers, d.Labels = append(d.Numbers, numbers), append(d.Labels, float64(x.Label))
		for j, id := range x.IDs {
			d.IDs[j] = append(d.IDs[j], []int64{int64(id)})
		}
		if !x.Bad {
			continue
		}
		switch i % 3 {
		case 0:
			d.IDs[i%len(d.IDs)][i][0] = -1 - int64(i)
		case 1:
			d.Numbers[i][i%len(numbers)] = float32(math.NaN())
		default:
			d.Labels[i] = 2
		}
	}
	d.Write(t, path)
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
}

// writeParquet writes samples with the columns of csvText.
func writeParquet(t *testing.T, path string, all []formattest.Sample) {
	t.Helper()
	type row struct {
		City    uint32 `parquet:"city,dict"`
		Clicked int32  `parquet:"clicked"`
		Age     int32  `parquet:"age,snappy"`
		Shop    uint32 `parquet:"shop"`
		Price   int32  `parquet:"price"`
		Brand   string `parquet:"brand,dict"`
	}
	var rows []row
	for _, x := range all {
		r := row{x.IDs[0], x.Label, x.Dense[0], x.IDs[1], x.Dense[1], fmt.Sprint(x.IDs[2])}
		if x.Bad {
			r.Clicked = 2
		}
		rows = append(rows, r)
	}
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
}

func csvText(all []formattest.Sample) []byte {
	var b bytes.Buffer
	b.WriteString("city,clicked,age,other,shop,price,brand\n")
	for _, x := range all {
		age := fmt.Sprint(x.Dense[0])
		if x.Bad {
			age = "old"
		}
		fmt.Fprintf(&b, "%d,%d,%s,,%d,%d,\"%d\"\n", x.IDs[0], x.Label, age, x.IDs[1], x.Dense[1], x.IDs[2])
	}
	return b.Bytes()
}

// avazuText writes samples as Kaggle's train.csv, with an id that is not read.
func avazuText(all []formattest.Sample) []byte {
	var b bytes.Buffer
	b.WriteString("id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,app_category,device_id,device_ip," +
		"device_model,device_type,device_conn_type,C14,C15,C16,C17,C18,C19,C20,C21\n")
	for i, x := range all {
		label := x.Label
		if x.Bad {
			label = 2
		}
		fmt.Fprintf(&b, "1000%d,%d", i, label)
		for _, id := range x.IDs {
			fmt.Fprintf(&b, ",%x", id)
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func tsvText(all []formattest.Sample) []byte {
	var b bytes.Buffer
	for _, x := range all {
		label := x.Label
		if x.Bad {
			label = 2
		}
		fmt.Fprint(&b, label)
		for _, v := range x.Dense {
			fmt.Fprintf(&b, "\t%d", v)
		}
		for _, id := range x.IDs {
			fmt.Fprintf(&b, "\t%x", id)
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func binRecords(all []formattest.Sample) (records []byte) {
	le := binary.LittleEndian
	for _, x := range all {
		label := x.Label
		if x.Bad {
			label = 2
		}
		records = le.AppendUint32(records, uint32(label))
		for _, v := range x.Dense {
			records = le.AppendUint32(records, uint32(v))
		}
		for _, id := range x.IDs {
			records = le.AppendUint32(records, id)
		}
	}
	return records
}
