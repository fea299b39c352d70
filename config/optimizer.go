package config

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// leastEps is the default of eps for rules that do not read it.
const leastEps = 1e-10

// group is a section of [optimizer].
type group struct {
	key string // "optimizer.dense"
	*Optimizer
}

// groups lists the sections of [optimizer].
func (o *Optimizers) groups() []group {
	return []group{{"optimizer.dense", &o.Dense}, {"optimizer.sparse", &o.Sparse}, {"optimizer.linear", &o.Linear}}
}

// resolveDefaults sets the keys of [optimizer.linear] that are not given to those of
// [optimizer.sparse], and eps to the default of its rule.
func (o *Optimizers) resolveDefaults(src *source) {
	for _, g := range o.groups() {
		if g.Optimizer == &o.Linear {
			o.copySparse(src)
			if o.Linear.Kind == o.Sparse.Kind {
				continue
			}
		}
		if !math.IsNaN(g.Eps) || src.mentions(g.key+".eps") {
			continue
		}
		g.Eps = leastEps
		if kind, ok := kernels.FindRule(g.Kind); ok && kind.Rule().Reads("eps") {
			g.Eps = kind.Rule().Eps
		}
	}
}

// copySparse sets the keys of Linear that are not given. Eps belongs to a rule, so it is
// copied only between equal rules.
func (o *Optimizers) copySparse(src *source) {
	from, to := reflect.ValueOf(o.Sparse), reflect.ValueOf(&o.Linear).Elem()
	eps := o.Linear.Eps
	for i := range to.NumField() {
		if key := "optimizer.linear." + to.Type().Field(i).Tag.Get("toml"); !src.mentions(key) {
			to.Field(i).Set(from.Field(i))
		}
	}
	if o.Linear.Kind != o.Sparse.Kind && !src.mentions("optimizer.linear.eps") {
		o.Linear.Eps = eps
	}
}

// HasLinear reports whether the rows of the model have linear weights, which [optimizer.linear]
// updates.
func (c *Config) HasLinear() bool {
	m := c.ModelConfig()
	return model.Check(m) == nil && model.ShapeOf(m).HasGroup(model.Linear)
}

// linearKeys lists the keys of [optimizer.linear] if the rows have no linear weights.
func (c *Config) linearKeys() (list []refusal) {
	if c.HasLinear() {
		return nil
	}
	values, all := map[string]string{}, c.KeyValues()
	for _, kv := range all {
		values[kv.Key] = kv.Value
	}
	for _, kv := range all {
		if name, linear := strings.CutPrefix(kv.Key, "optimizer.linear."); linear {
			why := fmt.Sprintf("the rows of model.kind = %q have no linear weights; leave it out", c.Model.Kind)
			list = append(list, refusal{kv.Key, kv.Value != values["optimizer.sparse."+name], why, true})
		}
	}
	return list
}

// checkOptimizers checks the numbers of [optimizer].
func (c *Config) checkOptimizers(src *source) error {
	for _, o := range c.Optimizer.groups() {
		unit := func(x float64) bool { return x >= 0 && x < 1 }
		switch {
		case !(o.LR > 0 && o.LR <= math.MaxFloat32):
			return src.errorf(o.key+".lr", "%v is not a positive number", o.LR)
		case !(o.Eps >= 0 && o.Eps <= math.MaxFloat32):
			return src.errorf(o.key+".eps", "%v is not zero or a positive number", o.Eps)
		case !unit(o.Momentum):
			return src.errorf(o.key+".momentum", "%v is out of range; choose 0 to less than 1", o.Momentum)
		case !unit(o.Betas[0]) || !unit(o.Betas[1]):
			return src.errorf(o.key+".betas", "[%v, %v] are out of range; choose 0 to less than 1", o.Betas[0], o.Betas[1])
		case !(o.Beta >= 0 && o.Beta <= math.MaxFloat32):
			return src.errorf(o.key+".beta", "%v is not zero or a positive number", o.Beta)
		case !(o.L1 >= 0 && o.L1 <= math.MaxFloat32):
			return src.errorf(o.key+".l1", "%v is not zero or a positive number", o.L1)
		case !(o.L2 >= 0 && o.L2 <= math.MaxFloat32):
			return src.errorf(o.key+".l2", "%v is not zero or a positive number", o.L2)
		case !(o.WeightDecay >= 0 && o.WeightDecay <= math.MaxFloat32):
			return src.errorf(o.key+".weight_decay", "%v is not zero or a positive number", o.WeightDecay)
		case o.WarmupSteps < 0 || o.WarmupSteps > MaxSteps:
			return src.errorf(o.key+".warmup_steps", "%d is out of range; choose 0 to %d", o.WarmupSteps, MaxSteps)
		case o.DecayStart < 0 || o.DecayStart > MaxSteps:
			return src.errorf(o.key+".decay_start", "%d is out of range; choose 0 to %d", o.DecayStart, MaxSteps)
		case o.DecaySteps < 0 || o.DecaySteps > MaxSteps:
			return src.errorf(o.key+".decay_steps", "%d is out of range; choose 0 to %d", o.DecaySteps, MaxSteps)
		case o.DecaySteps == 0 && o.DecayStart > 0:
			return src.errorf(o.key+".decay_start", "is %d, but decay_steps, the length of the decay, is not set; set both", o.DecayStart)
		case o.DecaySteps > 0 && o.DecayStart < o.WarmupSteps:
			return src.errorf(o.key+".decay_start", "%d is inside the warm-up of %d steps; start the decay after it", o.DecayStart, o.WarmupSteps)
		}
	}
	if err := c.checkAllRows(src); err != nil {
		return err
	}
	return c.checkGradients(src)
}

// denseRules are the rules that move rows without a gradient.
var denseRules = []string{"adam", "adamw"}

// checkAllRows checks that rows may be updated at steps that do not use them.
func (c *Config) checkAllRows(src *source) error {
	if c.Optimizer.Sparse.Dense != c.Optimizer.Linear.Dense {
		return src.errorf("optimizer.linear.dense", "is %v, and optimizer.sparse.dense is %v: a row is updated as a whole; make them equal",
			c.Optimizer.Linear.Dense, c.Optimizer.Sparse.Dense)
	}
	if !c.Optimizer.Sparse.Dense {
		return nil
	}
	for _, g := range c.Optimizer.groups()[1:] {
		switch {
		case !in(g.Kind, denseRules...):
			return src.errorf(g.key+".dense", "%v does not move rows without a gradient; use one of %s, or leave dense out", g.Kind,
				strings.Join(denseRules, ", "))
		case g.Eps == 0:
			return src.errorf(g.key+".eps", "0 divides 0 by 0 in rows without a gradient; choose a positive number, or leave dense out")
		}
	}
	const every = "optimizer.sparse.dense changes every row at each step; "
	switch {
	case c.EC.Code != ec.None:
		return src.errorf("ec.code", every+"a code protects the rows that change, and would resend them all; use ec.code = \"none\", or leave dense out")
	case c.Job.Digests:
		return src.errorf("job.digests", every+"every commit would hash the whole table; leave one of the two out")
	case c.Cache.Mode == "lrpp":
		return src.errorf("cache.mode", every+"rows in a cache would be stale; use \"auto\", or leave dense out")
	case c.Store.Tier != "dram":
		return src.errorf("store.tier", every+"use \"dram\", or leave dense out")
	case c.Stream.To != "":
		return src.errorf("stream.to", every+"leave one of the two out")
	case c.Store.Path != "":
		return src.errorf("store.path", every+"leave one of the two out")
	}
	return nil
}

// checkGradients checks the weights of losses, and the limits of gradients.
func (c *Config) checkGradients(src *source) error {
	t := c.Train
	switch {
	case !(t.PositiveWeight > 0 && t.PositiveWeight <= math.MaxFloat32):
		return src.errorf("train.positive_weight", "%v is not a positive number", t.PositiveWeight)
	case !(t.ClipDense >= 0 && t.ClipDense <= math.MaxFloat32):
		return src.errorf("train.clip_dense", "%v is not zero or a positive number", t.ClipDense)
	case !(t.ClipNorm >= 0 && t.ClipNorm <= math.MaxFloat32):
		return src.errorf("train.clip_norm", "%v is not zero or a positive number", t.ClipNorm)
	case t.ClipDense > 0 && t.ClipNorm > 0:
		return src.errorf("train.clip_dense", "train.clip_norm limits the dense gradients too; set one of the two")
	case t.ClipNorm > 0 && c.Cache.Mode == "lrpp":
		return src.errorf("cache.mode", "\"lrpp\" updates rows before all gradients are known, and train.clip_norm needs them all; use \"auto\", or train.clip_dense")
	}
	return nil
}
