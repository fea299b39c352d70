package model

import "fmt"

// Graph is the forward pass of a model in evaluation, for programs that compute it elsewhere. Values have names
// and a row per sample. Tensors have the names that they have in files.
type Graph struct {
	// Ops are the operations in order. The output of the last one is the logits, (b, 1).
	Ops []Op
}

// ValueDense is the value of the dense features, (b, Config.Dense).
const ValueDense = "dense"

// Op is an operation of a graph.
type Op struct {
	Kind    OpKind
	Out     string   // value
	In      []string // values
	Tensors []string
	// Vectors and Width split a row of In[0] into Vectors vectors of Width numbers.
	Vectors, Width int
	// ReLU follows a linear operation.
	ReLU bool
	Eps  float32
}

// OpKind is the computation of an operation, on rows of values. x is In[0], y In[1], z In[2].
type OpKind int

// The operations.
const (
	// OpGather puts the rows of all features side by side: for each the row of its id, or the sum or mean of the rows of its
	// bag. Tensors has the table of each feature, (rows, Width).
	OpGather OpKind = iota
	// OpLinear is x wᵀ + bias, for a weight (out, in) and a bias, which may be missing.
	OpLinear
	// OpConcat puts values side by side.
	OpConcat
	// OpDots is the dot products of the vectors of x: of vector i with vector j for all j < i, in the order of i, then j.
	OpDots
	// OpScale multiplies number i of x by row i of a tensor (n, Width), and puts the products side by side.
	OpScale
	// OpSumVectors adds up the vectors of x.
	OpSumVectors
	// OpFM is the factorization machine's half of (the squared sum of the vectors of x minus the sum of their squares),
	// added up over the columns: (b, 1).
	OpFM
	// OpMulAdd is x * y + z, number by number. y may have one column; z may be missing. If there is a tensor, it is added
	// to each row.
	OpMulAdd
	// OpAdd adds up values of one shape. If there is a tensor, it is added to each row.
	OpAdd
	// OpBatchNorm is (x - mean) / sqrt(variance + Eps) * weight + bias, by columns, for the tensors weight, bias,
	// running mean and running variance.
	OpBatchNorm
	// OpReLU is max(x, 0).
	OpReLU
)

// Drawing is a graph that a kind draws. Its methods append operations and return their outputs.
type Drawing struct {
	Graph
	Config Config
}

// Add appends an operation, whose output it names.
func (g *Drawing) Add(op Op) string {
	op.Out = fmt.Sprintf("v%d", len(g.Ops))
	g.Ops = append(g.Ops, op)
	return op.Out
}

// AddMLP appends the layers of network.addMLP. Dropout does nothing in evaluation.
func (g *Drawing) AddMLP(prefix, x string, widths []int, reluLast bool) string {
	return g.addLayers(prefix, normsOf(prefix), x, widths, len(widths)-1, reluLast)
}

// AddHiddenMLP appends the layers of network.addHiddenMLP.
func (g *Drawing) AddHiddenMLP(prefix, x string, widths []int) string {
	return g.addLayers(prefix, normsOf(prefix), x, widths, len(widths), true)
}

// AddNormedMLP is AddMLP with a name for the norms.
func (g *Drawing) AddNormedMLP(prefix, norms, x string, widths []int, reluLast bool) string {
	return g.addLayers(prefix, norms, x, widths, len(widths)-1, reluLast)
}

// addLayers appends the layers of an MLP, the first of which are hidden.
func (g *Drawing) addLayers(prefix, norms, x string, widths []int, hidden int, reluLast bool) string {
	for i := range widths {
		normed := i < hidden && g.Config.BatchNorm
		x = g.Add(Op{Kind: OpLinear, In: []string{x}, ReLU: (reluLast || i < len(widths)-1) && !normed,
			Tensors: []string{fmt.Sprintf("%s.%d.weight", prefix, 2*i), fmt.Sprintf("%s.%d.bias", prefix, 2*i)}})
		if normed {
			name := fmt.Sprintf("%s.%d", norms, i)
			x = g.Add(Op{Kind: OpBatchNorm, In: []string{x}, ReLU: true, Eps: normEps,
				Tensors: []string{name + ".weight", name + ".bias", name + ".running_mean", name + ".running_var"}})
		}
	}
	return x
}

// Gather appends the gathering of a part of all rows.
func (g *Drawing) Gather(p Part) string {
	op := Op{Kind: OpGather, Vectors: g.Config.Tables, Width: p.Width}
	for f := range g.Config.Tables {
		if g.Config.TableOf != nil {
			f = g.Config.TableOf[f]
		}
		op.Tensors = append(op.Tensors, p.Tensor(f))
	}
	return g.Add(op)
}

// GatherEmbeddings appends the gathering of the embeddings.
func (g *Drawing) GatherEmbeddings() string {
	return g.Gather(Part{Name: "emb_l", Width: g.Config.EmbeddingDim})
}

// Concat puts values side by side.
func (g *Drawing) Concat(values ...string) string {
	return g.Add(Op{Kind: OpConcat, In: values})
}

func drawDLRM(g *Drawing) {
	c := g.Config
	beside, vectors := func(x string) string { return x }, c.Tables // x beside the bottom MLP's output
	if c.Dense > 0 {
		bottom := g.AddMLP("bot_l", ValueDense, c.BottomMLP, true)
		beside, vectors = func(x string) string { return g.Concat(bottom, x) }, c.Tables+1
	}
	x := g.GatherEmbeddings()
	switch c.Interaction {
	case InteractionCat:
	case InteractionSum:
		x = g.Add(Op{Kind: OpSumVectors, In: []string{x}, Vectors: c.Tables, Width: c.EmbeddingDim})
	default:
		x = g.Add(Op{Kind: OpDots, In: []string{beside(x)}, Vectors: vectors, Width: c.EmbeddingDim})
	}
	g.AddMLP("top_l", beside(x), c.TopMLP, false)
}

func drawDeepFM(g *Drawing) {
	c, vectors := g.Config, g.Config.Tables
	feats := g.GatherEmbeddings()
	terms := []string{g.Add(Op{Kind: OpSumVectors, In: []string{g.Gather(linearPart)}, Vectors: c.Tables, Width: 1})}
	if c.DenseEmbedding {
		vectors += c.Dense
		feats = g.Concat(g.Add(Op{Kind: OpScale, In: []string{ValueDense}, Tensors: []string{"emb_dense.weight"}, Vectors: c.Dense, Width: c.EmbeddingDim}), feats)
		terms = append(terms, g.Add(Op{Kind: OpLinear, In: []string{ValueDense}, Tensors: []string{"linear_dense.weight"}}))
	}
	terms = append(terms, g.Add(Op{Kind: OpFM, In: []string{feats}, Vectors: vectors, Width: c.EmbeddingDim}))
	terms = append(terms, g.AddNormedMLP("top_l", "bn", feats, c.TopMLP, false))
	g.Add(Op{Kind: OpAdd, In: terms, Tensors: []string{"linear.bias"}})
}
