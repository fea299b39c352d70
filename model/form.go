package model

// Form is a value of a key that chooses between forms of a kind.
type Form struct {
	Name string // the value
	Doc  string // the computation in one line
}

// FormNames lists the names of forms.
func FormNames(forms []Form) (names []string) {
	for _, f := range forms {
		names = append(names, f.Name)
	}
	return names
}

// The values of Config.Interaction.
const (
	InteractionDot = "dot"
	InteractionCat = "cat"
	InteractionSum = "sum"
)

// Interactions are the forms of dlrm.
var Interactions = []Form{
	{InteractionDot, "the bottom MLP's output, then the dot products of all pairs of it and the rows; without numbers, the dot products of all pairs of rows"},
	{InteractionCat, "the bottom MLP's output and the rows, side by side"},
	{InteractionSum, "the bottom MLP's output, then the sum of the rows"},
}

// The values of Config.Cross.
const (
	CrossLowRank = "low-rank"
	CrossVector  = "vector"
	CrossFull    = "full"
)

// Crosses are the forms of a cross layer over x0 and x, vectors of n numbers.
var Crosses = []Form{
	{CrossLowRank, "`x0 * (W (V x) + bias) + x` with W of n by rank and V of rank by n numbers: DCN-V2 of low rank"},
	{CrossVector, "`x0 * (w · x) + bias + x` with w of n numbers: DCN"},
	{CrossFull, "`x0 * (W x + bias) + x` with W of n by n numbers: DCN-V2"},
}

// The values of Config.Structure.
const (
	StructureStacked  = "stacked"
	StructureParallel = "parallel"
)

// Structures are the ways in which dcn combines its cross layers with the top MLP.
var Structures = []Form{
	{StructureStacked, "the top MLP is over the output of the cross layers"},
	{StructureParallel, "cross layers and top MLP have the same input; the top MLP's last layer, `fc`, is over both outputs"},
}

// checkForm refuses a value that is neither empty nor the name of a form.
func checkForm(key, value string, forms []Form) error {
	for _, f := range forms {
		if value == f.Name {
			return nil
		}
	}
	if value == "" {
		return nil
	}
	return keyError(key, "%q is not one of %v", value, FormNames(forms))
}
