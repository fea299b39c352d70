package paper

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ecrec/ecrec/bench"
)

// All lists the drawings, in the order of the page.
func All() []Drawing { return drawingsWith("") }

// drawingsWith lists the drawings; some also count the training data of a config, if there is one.
func drawingsWith(config string) []Drawing {
	return slices.Concat(ecrecDrawings(), bagPipeDrawings(config), openEmbeddingDrawings(), continuousDrawings(), ownDrawings())
}

// IDs lists the ids of all figures, in the order of the page: those of the papers, then the drawings of none.
func IDs() []string { return idsOf(All()) }

// ErrUnknown is wrapped by errors about ids of figures.
var ErrUnknown = errors.New("unknown figure")

// Plan lists the runs of the figures, each once, in the order of the figures. only has the ids of the wanted figures; empty: all. data is
// the config of a run whose training data some figures count besides; empty: none.
func Plan(size Size, only []string, data string) ([]RunRecord, error) {
	var unknown []string
	for _, id := range only {
		if !slices.Contains(IDs(), id) {
			unknown = append(unknown, id)
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("%w %s; there are %s", ErrUnknown, strings.Join(unknown, ", "), strings.Join(IDs(), " "))
	}
	return planDrawings(inOrder(drawingsWith(data)), size, only), nil
}

// Make draws all figures. read returns the report of a run that is done.
func Make(s Session, read func(Run) (*bench.Report, error)) *Report {
	return makeFrom(inOrder(drawingsWith(s.Data)), s, read)
}

// inOrder sorts drawings as the page does.
func inOrder(drawings []Drawing) []Drawing {
	ids := idsOf(drawings)
	place := func(d Drawing) int {
		if i := slices.Index(ids, d.ID); i >= 0 {
			return i
		}
		return len(ids)
	}
	return slices.SortedStableFunc(slices.Values(drawings), func(a, b Drawing) int { return place(a) - place(b) })
}
