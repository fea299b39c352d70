package serve

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/predict"
)

// laneRows is how many rows a lane scores at a time.
const laneRows = 256

// spec is the part of a model that no marker changes.
type spec struct {
	model checkpoint.Model
	form  *predict.Form
	rows  *rowForm
}

// newSpec reads the description of a run.
func newSpec(v *follow.View) (*spec, error) {
	cfg, err := v.About.Run.Recipe.Config()
	if err != nil {
		return nil, fmt.Errorf("the config of the run: %w", err)
	}
	var recipe *data.Recipe
	if len(v.About.Recipe) > 0 {
		if recipe, err = data.ParseRecipe(v.About.Recipe); err != nil {
			return nil, fmt.Errorf("the recipe of the run: %w", err)
		}
	}
	if recipe == nil || recipe.Source == "" {
		if recipe, err = data.NewRecipe(cfg.DataOptions(false)); err != nil {
			return nil, fmt.Errorf("the config of the run: %w", err)
		}
	}
	if !recipe.Complete() {
		return nil, errors.New("tables or transforms were counted from the training data, and the topic lacks them")
	}
	if cfg.Model.Tables.IsCounted() {
		cfg = cfg.Resolve(recipe)
	}
	x := &spec{model: v.Model}
	if x.form, err = predict.NewForm(cfg); err != nil {
		return nil, err
	}
	if err := x.checkModel(); err != nil {
		return nil, err
	}
	x.rows, err = newRowForm(cfg, x.form, recipe)
	return x, err
}

// checkModel compares the model of the stream with that of the config.
func (x *spec) checkModel() error {
	var have []string
	for _, t := range append(x.model.Tensors[:len(x.model.Tensors):len(x.model.Tensors)], x.model.Statistics...) {
		have = append(have, t.Name)
	}
	want := x.form.DenseNames()
	if fmt.Sprint(have) != fmt.Sprint(want) || x.model.Width != x.form.Width() {
		return fmt.Errorf("the model of the stream has tensors %v and rows of %d weights, that of its config %v and %d",
			have, x.model.Width, want, x.form.Width())
	}
	return nil
}

// Marker names a model that is served.
type Marker struct {
	Step    int64  `json:"step"`
	Digest  string `json:"digest"`
	Lineage string `json:"lineage"`

	written int64     // when it was written, in milliseconds since 1970; 0: unknown
	since   time.Time // when it was served first
	json    []byte    // the fields, without the braces
}

func newMarker(v *follow.View) *Marker {
	m := &Marker{Step: v.Step, Digest: v.Digest, Lineage: v.Lineage.String(), written: v.Written, since: time.Now()}
	m.json = append(strconv.AppendInt([]byte(`"step":`), m.Step, 10), `,"digest":"`+m.Digest+`","lineage":"`+m.Lineage+`"`...)
	return m
}

// view is a side at a marker. It never changes.
type view struct {
	*side
	*Marker
	spec     *spec
	replaced chan struct{} // closed once another one is current
}

// served is the model that is served. It has two sides: the rows of the follower, and a copy of their weights.
//
// Invariants:
//   - Between calls of publish, requests use the copy only, and no lane of the follower's rows is free: the follower may change them.
//   - A side is written only while none of its lanes is free.
type served struct {
	lanes   int // of each side
	current atomic.Pointer[view]
	spec    *spec
	theirs  *side // the rows of the follower
	copied  *side
	dev     kernels.Device
}

// publish shows requests a model. The follower calls it, and changes no row until it returns. Requests never wait for it.
func (x *served) publish(v *follow.View) error {
	old, fresh := x.current.Load(), v.Fresh || x.theirs == nil
	before := x.copied
	if fresh {
		if err := x.beginModel(v); err != nil {
			return err
		}
	}
	if err := x.theirs.setDense(v.Dense); err != nil {
		return err
	}
	m := newMarker(v)
	x.theirs.admit()
	x.show(&view{side: x.theirs, Marker: m, spec: x.spec})
	if old != nil {
		old.drain()
	}
	if fresh && before != nil {
		before.closeLanes()
		before.freeRows()
	}
	x.copied.update(x.theirs, v, fresh)
	if err := x.copied.setDense(v.Dense); err != nil {
		panic(err) // it has the lanes' size: those of the other side took it
	}
	x.copied.admit()
	x.show(&view{side: x.copied, Marker: m, spec: x.spec})
	x.theirs.drain()
	return nil
}

// beginModel begins with another model. After an error the one before is served still.
func (x *served) beginModel(v *follow.View) (err error) {
	if x.dev == nil {
		if x.dev, err = kernels.NewCPU(kernels.CPUOptions{}); err != nil {
			return err
		}
	}
	f, err := newSpec(v)
	if err != nil {
		return err
	}
	copied, err := copyOf(x.dev, v.Shards)
	if err != nil {
		return err
	}
	theirs := sideOf(v.Shards)
	if err = theirs.makeLanes(f, x.lanes); err == nil {
		err = copied.makeLanes(f, x.lanes)
	}
	if err != nil {
		theirs.closeLanes()
		copied.freeRows()
		return err
	}
	if x.theirs != nil {
		x.theirs.closeLanes()
	}
	x.spec, x.theirs, x.copied = f, theirs, copied
	return nil
}

// show makes a view the current one.
func (x *served) show(v *view) {
	v.replaced = make(chan struct{})
	if old := x.current.Swap(v); old != nil {
		close(old.replaced)
	}
}

// acquire returns a lane, with the view that is current at some moment of the call. The caller calls release.
func (x *served) acquire(ctx context.Context) (*lane, *view, error) {
	for {
		v := x.current.Load()
		if v == nil {
			return nil, nil, errNoModel
		}
		if l, err := x.enter(ctx, v); l != nil || err != nil {
			return l, v, err
		}
	}
}

// enter returns a lane of a view, nil if the view is not current any more.
func (x *served) enter(ctx context.Context, v *view) (l *lane, err error) {
	select {
	case l = <-v.free:
	default:
		select {
		case l = <-v.free:
		case <-v.replaced:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if x.current.Load() != v {
		v.free <- l // the view was replaced: its side waits for the lane, or is at another marker
		return nil, nil
	}
	return l, nil
}

// release ends the use of a lane.
func (l *lane) release() { l.side.free <- l }

// closeAll waits until no request has a lane, and frees the memory.
func (x *served) closeAll() {
	if v := x.current.Swap(nil); v != nil {
		close(v.replaced)
		v.drain()
	}
	for _, s := range []*side{x.theirs, x.copied} {
		if s != nil {
			s.closeLanes()
		}
	}
	if x.copied != nil {
		x.copied.freeRows()
	}
}
