package traintest

import "slices"

// Form is a form of a model kind: its sets, for the files of WriteJob.
type Form struct {
	Name string
	Sets []string
}

var (
	// mlps has a bottom MLP that ends in the width of embeddings.
	mlps = []string{"model.embedding_dim=4", "model.bottom_mlp=[8, 4]", "model.top_mlp=[8, 1]"}
	// flat has no bottom MLP.
	flat = []string{"model.embedding_dim=4", "model.bottom_mlp=[]", "model.top_mlp=[8, 6, 1]"}
	// deep is for a kind without the key of the bottom MLP.
	deep = []string{"model.kind=deepfm", "model.embedding_dim=4", "model.top_mlp=[8, 6, 1]"}
	// numberless is data with categories only.
	numberless = []string{"data.csv.dense=[]"}
	// bags is data with several weighted ids in a field, and a table that two features share.
	bags = []string{`data.train=["train-bags.csv"]`, `data.eval=["eval-bags.csv"]`, "data.csv.separator=|", `data.csv.bags=["c1"]`,
		"data.csv.weighted=true", `model.table_of=["a", "b", "a"]`, "model.tables=[40, 70]", `model.pooling=["sum", "mean", "sum"]`}
	normed = []string{"model.batch_norm=true", "model.dropout=0.25"}
	// ruled gives linear weights a rule of their own.
	ruled = []string{"optimizer.linear.kind=ftrl", "optimizer.linear.lr=0.05", "optimizer.linear.l1=1e-4"}
	// wide is wdl with a linear model over the ids.
	wide = slices.Concat(flat, ruled, []string{"model.linear=true"})
)

// Forms lists the forms of the model kinds that the repository has, each with some of the data that it can train on. Tests
// that compare the bits of jobs go through all of them.
var Forms = []Form{
	form("dlrm", mlps),
	form("dlrm", mlps, normed, bags),
	form("dlrm cat", mlps, bags, []string{"model.bottom_mlp=[8, 3]", "model.interaction=cat"}),
	form("dlrm sum", mlps, normed, []string{"model.interaction=sum"}),
	form("dlrm numberless", flat, numberless),
	form("dlrm numberless", flat, numberless, normed, bags),
	form("dlrm cat numberless", flat, numberless, normed, []string{"model.interaction=cat"}),
	form("dlrm sum numberless", flat, numberless, bags, []string{"model.interaction=sum"}),
	form("wdl", mlps, []string{"model.top_mlp=[1]"}),
	form("wdl linear", wide, normed, bags),
	form("wdl numberless", flat, numberless),
	form("wdl linear numberless", wide, numberless, normed, bags),
	form("dcn low-rank", mlps, []string{"model.cross_rank=3"}),
	form("dcn low-rank parallel numberless", flat, numberless, bags, []string{"model.cross_rank=3", "model.structure=parallel"}),
	form("dcn vector numberless", flat, numberless, normed, []string{"model.cross=vector"}),
	form("dcn vector parallel", mlps, normed, bags, []string{"model.cross=vector", "model.structure=parallel"}),
	form("dcn full", mlps, bags, []string{"model.cross=full", "train.clip_dense=0.05"}),
	form("dcn full parallel numberless", flat, numberless, normed, []string{"model.cross=full", "model.structure=parallel"}),
	form("deepfm", deep, ruled, bags, []string{"model.dropout=0.25", "model.dense_embedding=true"}),
	form("deepfm numberless", deep, numberless, bags, []string{"model.batch_norm=false"}),
}

// form returns a form whose name begins with its kind. Names say whether a form has bags or batch norm.
func form(name string, sets ...[]string) Form {
	kind := name
	for i, c := range name {
		if c == ' ' {
			kind = name[:i]
			break
		}
	}
	for _, s := range sets {
		switch s[0] {
		case normed[0]:
			name += " normed"
		case bags[0]:
			name += " bags"
		}
	}
	return Form{Name: name, Sets: append([]string{"model.kind=" + kind}, slices.Concat(sets...)...)}
}

// WithoutBags returns the sets for data with one id in a field, and a table for each feature.
func (f Form) WithoutBags() []string {
	return slices.DeleteFunc(slices.Clone(f.Sets), func(set string) bool { return slices.Contains(bags, set) })
}
