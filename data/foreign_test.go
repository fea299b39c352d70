package data

import (
	"strings"
	"testing"
)

// A file of another kind is named, with a remedy. Compressed and binary files were "no samples
// follow the header, or its first line is longer".
func TestTextThatIsNone(t *testing.T) {
	tar := make([]byte, 1024)
	copy(tar, "train.csv")
	copy(tar[257:], "ustar\x0000")
	for head, want := range map[string]string{
		"PK\x03\x04":                             "it is zip, ",
		"BZh91AY&SY\xb1\x1f":                     "it is bzip2, and csv is text; decompress it with bunzip2 first",
		"\xfd7zXZ\x00":                           "it is xz, ",
		"PAR1\x15\x04":                           "it is Parquet, and csv is text; ",
		"ARROW1\x00\x00":                         "it is Arrow",
		"\x93NUMPY\x01":                          "it is npy",
		"%PDF-1.7":                               "it is PDF, ",
		"\xff\xfel\x00,":                         "it is UTF-16, ",
		recordMagic + "rest":                     `it is a record file, and csv is text; set data.format = "record"`,
		string(tar):                              "it is a tar archive, ",
		gzipOf(t, tar):                           "it holds a tar archive, ",
		"\x20\x00\x00\x00\x00\x00\x00\x00{\"a\"": "it is safetensors, ",
	} {
		openFails(t, fileOptions(t, writeFile(t, "train.csv", []byte(head))), "train.csv", want)
	}
}

// A table of text is no file of another kind, with any name of its first column. PARENT_ID was taken for encrypted Parquet, ORCID for ORC.
func TestTextThatLooksForeign(t *testing.T) {
	for _, name := range []string{"PARENT_ID", "PAR1", "ORCID", "FEA1", "ARROW1", "BZh", "Obj1", strings.Repeat("x", 257) + "ustar"} {
		text := name + ",label\n7,1\n"
		for _, text := range []string{text, gzipOf(t, []byte(text))} {
			o := textOptions(t, text, CSV{Label: "label", Categorical: []string{name}}, 9)
			if n := mustOpen(t, o).Len(); n != 1 {
				t.Errorf("%s: %d samples", name, n)
			}
			recipe, err := NewRecipe(o)
			if err != nil {
				t.Fatal(err)
			}
			b, err := readRows(RowOptions{Env: o.Env, Format: FormatCSV, Files: o.Files, Recipe: recipe})
			if err != nil || len(b.Labels) != 1 {
				t.Errorf("%s: %d rows, %v", name, len(b.Labels), err)
			}
		}
	}
	for _, head := range []string{"PARE\x15\x00", "ORC\n\x0b\x00", "FEA1\x00\x00", "BZh91AY&SY\x00", "PAR1\x15\x04", "ARROW1\x00\x00"} {
		openFails(t, fileOptions(t, writeFile(t, "train.csv", []byte(head))), "train.csv", "and csv is text")
	}
}

// criteo-bin and record files are not text, and are not compressed.
func TestBinaryThatIsNone(t *testing.T) {
	line := strings.Repeat("\t", criteoFields-1)
	for head, want := range map[string]string{
		gzipOf(t, []byte("label,a,c\n")): "not FORMAT: it is gzip; ",
		"PAR1\x15\x04":                   "not FORMAT: it is Parquet; ",
		"label,a,c\n1,2,3\n":             `not FORMAT: it is text; set data.format = "csv", and name its columns in [data.csv]`,
		"0" + line + "\n":                `not FORMAT: it is text; set data.format = "criteo-tsv"`,
	} {
		for format, name := range map[string]string{FormatCriteoBin: FormatCriteoBin, FormatRecord: "a record file"} {
			o := Options{Format: format, Tables: testTables, Files: []string{writeFile(t, "train.bin", []byte(head))}}
			openFails(t, o, "train.bin", strings.ReplaceAll(want, "FORMAT", name))
		}
	}
	openFails(t, Options{Format: FormatCriteoBin, Tables: testTables, Files: []string{writeFile(t, "a.bin", []byte(recordMagic))}},
		`set data.format = "record"`)
}
