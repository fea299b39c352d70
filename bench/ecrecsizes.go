package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/data"
)

// A model of ECRec (VLDB'23) whose rows, and every time that belongs to its size, are divided by a scale: the time between two
// checkpoints, the length of a run, the moment of a failure. Steps, rows of a batch, and the rate of a store are not. So ratios of times
// keep their meaning.

// ecrecSize is a size of its evaluation.
type ecrecSize struct {
	name      string
	rows, dim int64 // rows of that of the paper
}

// ecrecSizes are all sizes, in the order of the paper's axis.
var ecrecSizes = []ecrecSize{{"Original", 1, 128}, {"2S", 2, 128}, {"4S", 4, 128}, {"8S", 8, 128}, {"2S-2D", 2, 256}}

// ecrecRows is the number of rows of Original: those of one twenty-fourth of Criteo Terabyte in ECRec's public code.
const ecrecRows = 197_767_405

func ecrecSizeNames() (names []string) {
	for _, s := range ecrecSizes {
		names = append(names, s.name)
	}
	return names
}

// sizesSetting declares the sizes to measure.
func sizesSetting(byDefault string) Setting {
	return Setting{Name: "sizes", Default: byDefault, Allowed: oneOf(ecrecSizeNames()) + "; several, separated by commas",
		Doc: "sizes of ECRec's evaluation, divided by the scale", check: func(value string) bool {
			return !slices.ContainsFunc(strings.Split(value, ","), func(s string) bool { return !slices.Contains(ecrecSizeNames(), s) })
		}}
}

// scaleSetting declares the scale.
var scaleSetting = number("scale", "200", 1, 1<<30, "divisor of the rows, and of each time that belongs to the size").orTiny("400000")

// lawSetting declares the law of the ids. A scaled table has a long tail like that of the paper's size only with tails.
var lawSetting = choice("law", data.LawTails, data.Laws, "data.law; tails: the popularity of rows has one shape at every size and scale")

// shape is the model of a size, with the DLRM of MLPerf. Tiny ones have short rows and layers.
func (z ecrecSize) shape(scale int, tiny bool) (shape, error) {
	of, err := data.Tables("criteo-terabyte-40m")
	if err != nil {
		return shape{}, err
	}
	all := int64(0)
	for _, n := range of {
		all += n
	}
	want := float64(ecrecRows*z.rows) / float64(scale)
	var tables []string
	for _, n := range of {
		tables = append(tables, fmt.Sprint(max(1, int64(math.Round(float64(n)*want/float64(all))))))
	}
	s := shape{name: z.name, dim: int(z.dim), bottom: []int{512, 256, int(z.dim)}, top: []int{1024, 1024, 512, 256, 1},
		tables: "[" + strings.Join(tables, ", ") + "]"}
	if tiny {
		s.dim, s.bottom, s.top = 4, []int{8, 4}, []int{8, 1}
	}
	return s, nil
}

// ecrecSizesOf returns the sizes that the setting names.
func (o Options) ecrecSizesOf() (all []ecrecSize) {
	for _, name := range strings.Split(o.text("sizes"), ",") {
		all = append(all, ecrecSizes[slices.Index(ecrecSizeNames(), name)])
	}
	return all
}
