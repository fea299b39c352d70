package lineage

// class is how a key affects a run's result.
type class int

const (
	free class = iota
	noted
	defines
	fixed
)

// classes lists every key of the config.
var classes = map[string]class{
	"job.name":       free, // names a run, and does not define it
	"job.seed":       fixed,
	"job.out":        free,
	"job.ranks":      defines, // the trainers: sums are grouped by them
	"job.threads":    free,
	"job.device":     free,
	"job.save_model": free,
	"job.digests":    free,
	"job.on_event":   free,
	"job.secure":     free,

	"data.format":          defines,
	"data.train":           defines, // by identity
	"data.eval":            noted,   // by identity; or it defines: see classOf
	"data.shuffle":         defines,
	"data.on_error":        defines,
	"data.transform":       defines,
	"data.min_count":       defines,
	"data.hots":            defines,
	"data.law":             defines,
	"data.cache":           free,
	"data.csv.label":       defines,
	"data.csv.weight":      defines,
	"data.csv.dense":       defines,
	"data.csv.categorical": defines,
	"data.csv.delimiter":   defines,
	"data.csv.na":          defines,
	"data.csv.separator":   defines,
	"data.csv.bags":        defines,
	"data.csv.weighted":    defines,

	"data.kafka.columns": defines,
	"data.kafka.begin":   defines,
	"data.kafka.at_end":  noted,
	"data.kafka.idle":    noted,

	"model.kind":            fixed,
	"model.embedding_dim":   fixed,
	"model.tables":          fixed,
	"model.bottom_mlp":      fixed,
	"model.top_mlp":         fixed,
	"model.interaction":     fixed,
	"model.linear":          fixed,
	"model.cross":           fixed,
	"model.cross_layers":    fixed,
	"model.cross_rank":      fixed,
	"model.structure":       fixed,
	"model.batch_norm":      fixed,
	"model.dropout":         defines,
	"model.dense_embedding": fixed,
	"model.init_from":       defines, // by identity

	"model.table_of": defines,
	"model.pooling":  defines,

	"kernels.blas": defines,

	"train.global_batch": defines,
	"train.iterations":   noted, // or it defines: see classOf
	"train.epochs":       noted, // or it defines: see classOf
	"train.eval_every":   noted, // or it defines: see classOf
	"train.keep":         noted,
	"train.best_by":      noted, // or it defines: see classOf
	"train.patience":     noted, // as train.iterations

	"train.plateau_patience": defines,
	"train.plateau_factor":   defines,

	"train.log_every":       free,
	"train.clip_dense":      defines,
	"train.positive_weight": defines,
	"train.clip_norm":       defines,

	"optimizer.dense.kind":         fixed,
	"optimizer.dense.lr":           defines,
	"optimizer.dense.momentum":     defines,
	"optimizer.dense.eps":          defines,
	"optimizer.dense.betas":        defines,
	"optimizer.dense.beta":         defines,
	"optimizer.dense.l1":           defines,
	"optimizer.dense.l2":           defines,
	"optimizer.dense.weight_decay": defines,
	"optimizer.dense.dense":        defines,
	"optimizer.dense.warmup_steps": defines,
	"optimizer.dense.decay_start":  defines,
	"optimizer.dense.decay_steps":  defines,

	"optimizer.sparse.kind":         fixed,
	"optimizer.sparse.lr":           defines,
	"optimizer.sparse.momentum":     defines,
	"optimizer.sparse.eps":          defines,
	"optimizer.sparse.betas":        defines,
	"optimizer.sparse.beta":         defines,
	"optimizer.sparse.l1":           defines,
	"optimizer.sparse.l2":           defines,
	"optimizer.sparse.weight_decay": defines,
	"optimizer.sparse.dense":        defines,
	"optimizer.sparse.warmup_steps": defines,
	"optimizer.sparse.decay_start":  defines,
	"optimizer.sparse.decay_steps":  defines,

	// As those of [optimizer.sparse], whose values they have if the config gives no others.
	"optimizer.linear.kind":         fixed,
	"optimizer.linear.lr":           defines,
	"optimizer.linear.momentum":     defines,
	"optimizer.linear.eps":          defines,
	"optimizer.linear.betas":        defines,
	"optimizer.linear.beta":         defines,
	"optimizer.linear.l1":           defines,
	"optimizer.linear.l2":           defines,
	"optimizer.linear.weight_decay": defines,
	"optimizer.linear.dense":        defines,
	"optimizer.linear.warmup_steps": defines,
	"optimizer.linear.decay_start":  defines,
	"optimizer.linear.decay_steps":  defines,

	"collectives.transport":     free,
	"collectives.deterministic": defines,

	"oracle.lookahead":   free,
	"cache.mode":         free,
	"cache.max_bytes":    free,
	"cache.delayed_sync": free,

	"ranks.servers":  free,
	"ranks.trainers": free, // as job.ranks
	"ranks.readers":  free,

	"ec.code":         free,
	"ec.k":            free,
	"ec.r":            free,
	"ec.commit_every": free,
	"ec.rebuild_rate": free,

	"elastic.spares":       free,
	"elastic.max_restarts": free,
	"elastic.heartbeat":    free,
	"elastic.standby":      free,

	"store.tier":       free,
	"store.path":       free,
	"store.dram_bytes": free,

	"checkpoint.dir":   free,
	"checkpoint.every": free,
	"checkpoint.kind":  free,
	"checkpoint.keep":  free,

	"stream.to":           free,
	"stream.backlog":      free,
	"metrics.listen":      free,
	"metrics.textfile":    free,
	"metrics.tensorboard": free,
}

// classOf is the class of a key in a recipe. A decay depends on the length of the run, which
// then defines the result. So do evaluations, if the run acts on them. A key of another version
// counts as defining.
func (r Recipe) classOf(key string) class {
	c, known := classes[key]
	switch {
	case !known:
		return defines
	case (key == "train.iterations" || key == "train.epochs") && r.hasDecay():
		return defines
	case (key == "train.eval_every" || key == "train.best_by" || key == "data.eval") && r.actsOnEvals():
		return defines
	}
	return c
}

// actsOnEvals reports whether learning rates or the length of the run depend on evaluations.
func (r Recipe) actsOnEvals() bool {
	for _, key := range []string{"train.patience", "train.plateau_patience"} {
		if value, ok := r.Value(key); ok && value != "0" {
			return true
		}
	}
	return false
}

// hasDecay reports whether a learning rate decays.
func (r Recipe) hasDecay() bool {
	for _, key := range []string{"optimizer.dense.decay_steps", "optimizer.sparse.decay_steps", "optimizer.linear.decay_steps"} {
		if value, ok := r.Value(key); ok && value != "0" {
			return true
		}
	}
	return false
}
