package data

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Split cuts a data set into a part for training and one for evaluation, as a function of the number of
// samples and an index alone. The zero Split is the whole set.
type Split struct {
	// Part of every Of samples are for evaluation.
	Part, Of int64
	Last     bool // they are the last ones of the set
	Eval     bool // this is the part for evaluation
}

// maxOf bounds Split.Of, the samples of a block.
const maxOf = 1000

// ParseSplit reads the value of data.eval: "10%" or "last 10%". ok is false if the text has no such form.
func ParseSplit(text string) (s Split, ok bool, err error) {
	share, last := strings.CutPrefix(text, "last ")
	share, ok = strings.CutSuffix(strings.TrimSpace(share), "%")
	if !ok || strings.ContainsAny(share, "/\\") {
		return s, false, nil
	}
	r, valid := new(big.Rat).SetString(share)
	if !valid {
		return s, false, nil
	}
	r.Quo(r, big.NewRat(100, 1))
	if r.Sign() <= 0 || r.Cmp(big.NewRat(1, 1)) >= 0 || r.Denom().Cmp(big.NewInt(maxOf)) > 0 {
		return s, true, usageErr("%q: between 0.1%% and 99.9%% of the samples can be held back, in steps of 0.1%%, like \"10%%\" or \"last 10%%\"", text)
	}
	return Split{Part: r.Num().Int64(), Of: r.Denom().Int64(), Last: last}, true, nil
}

func (s Split) isAll() bool { return s.Of == 0 }

// String is the text that ParseSplit reads; "" of the whole set.
func (s Split) String() string {
	if s.isAll() {
		return ""
	}
	share := strconv.FormatFloat(float64(s.Part)*100/float64(s.Of), 'g', -1, 64) + "%"
	if s.Last {
		return "last " + share
	}
	return share
}

// length is the number of samples of the part, of n in all.
func (s Split) length(n int64) int64 {
	eval := n / s.Of * s.Part
	if s.Eval {
		return eval
	}
	return n - eval
}

// A blockSplit maps the indexes of a part to those of the whole set of n samples, in ascending order. Each
// block of Of samples gives Part of them to evaluation: those with the first places in a permutation keyed by the
// number of the block. The samples after the last whole block are for training.
type blockSplit struct {
	Split
	n     int64
	block int64   // whose members are held
	eval  []int64 // of the block, ascending
}

// splitKey is the key of the permutations.
const splitKey = 0x5EED5911

// mapIndex is the index in the whole set of sample i of the part.
func (b *blockSplit) mapIndex(i int64) int64 {
	if b.Last {
		if b.Eval {
			return i + b.n - b.n/b.Of*b.Part
		}
		return i
	}
	per := b.Of - b.Part
	if b.Eval {
		per = b.Part
	}
	block, k := i/per, i%per
	if block >= b.n/b.Of {
		return b.n/b.Of*b.Of + i - b.n/b.Of*per
	}
	if block != b.block || b.eval == nil {
		b.block, b.eval = block, b.eval[:0]
		p := newPermutation(b.Of, mix(uint64(block)+splitKey))
		for j := range b.Part {
			b.eval = append(b.eval, int64(p.mapIndex(uint64(j))))
		}
		slices.Sort(b.eval)
	}
	if b.Eval {
		return block*b.Of + b.eval[k]
	}
	for _, e := range b.eval {
		if e <= k {
			k++
		}
	}
	return block*b.Of + k
}
