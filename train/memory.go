package train

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// checkMemory refuses a job whose rows and activations cannot fit, before
// anything is allocated. Before the data is known it counts the rows alone. Who takes
// the place of a process that was lost finds the others' memory taken, and perhaps its
// own: the job has been checked.
func (j *job) checkMemory() error {
	if slots := j.place.Slots(0); slots > shard.MaxSlots {
		return config.Errorf("model.tables: each of %d ranks would own %d rows, at most %d fit; use more job.ranks", j.roles.rows, slots, shard.MaxSlots)
	}
	rows, rest := j.bytes()
	if room, ok := j.placeRows(rows, rest, j.gpuRoom); ok {
		if j.refused(rest, room) {
			return config.Errorf("memory: activations and buffers take %s, and this process has %s of %s; use a smaller train.global_batch, or more GPUs and job.ranks",
				size(rest), machine.Size(max(room, 0)), j.dev.Name())
		}
		rest = 0
	}
	available, ok := machine.AvailableMemory()
	if !ok || j.world.LostAgo > 0 || j.dev != j.host && !j.far {
		return nil
	}
	rows, rest = rows*float64(j.world.Neighbours), rest*float64(j.world.Neighbours)
	if need := rows + rest; need > float64(available) {
		return config.Errorf("memory: the job needs %s (rows and optimizer state %s, activations and buffers %s), this machine has %s available; use smaller model.tables or model.embedding_dim, a smaller train.global_batch, or fewer job.ranks",
			size(need), size(rows), size(rest), machine.Size(available))
	}
	return nil
}

// placeRows has rows lie in the host's memory where the GPU has no room for them beside the
// rest. roomFor is what this process has of a GPU that shall hold so much, not ok where it has
// none; it is returned.
func (j *job) placeRows(rows, rest float64, roomFor func(need float64) (room int64, ok bool)) (room int64, ok bool) {
	beside := rest + j.leastCacheBytes()
	near := rows + j.journalBytes(rows)
	if room, ok = roomFor(near + beside); !ok || j.refused(rest, room) {
		return room, ok
	}
	if !j.far && near+beside > float64(room) {
		j.o.Observer.Warned(fmt.Sprintf("rows and optimizer state of %s lie in the host's memory, which steps read over the bus: of %s this process, one of %d on its machine, has %s, of which other buffers take %s; with more GPUs they would fit",
			size(rows), j.dev.Name(), j.world.Neighbours, machine.Size(room), size(beside)))
		j.far = true
		kernels.KeepRowsOnHost(j.dev)
	}
	left := float64(room) - rest
	if !j.far {
		left -= near
	}
	const share = 0.8                                                      // the rest is for what grows with batches
	j.cacheRoom = int64(max(0, share*left)) / int64(max(1, len(j.hosted))) // a spare has no ranks yet
	return room, true
}

// refused reports whether a GPU has too little room for a job that begins.
func (j *job) refused(rest float64, room int64) bool {
	return rest > float64(room) && j.world.LostAgo == 0
}

// placeAdopted does it again where this process has taken ranks beside those held.
func (j *job) placeAdopted(held []*rank) {
	if !slices.ContainsFunc(j.hosted, func(id int) bool { return held[id] == nil }) {
		return
	}
	rows, rest := j.bytes()
	j.placeRows(rows, rest, func(float64) (room int64, ok bool) {
		room, _, ok = kernels.GPURoom(j.dev, j.world.Neighbours) // some of it is taken, by this process
		return room, ok
	})
}

// gpuRoom is what a process that has nothing yet has of its GPU. Who takes the place of one that
// was lost lets the driver some time to free what that one had, if so much is needed.
func (j *job) gpuRoom(need float64) (room int64, ok bool) {
	const patience, look = 3 * time.Second, 50 * time.Millisecond
	for waited := time.Duration(0); ; waited += look {
		share, free, ok := kernels.GPURoom(j.dev, j.world.Neighbours)
		room = min(share, free) // others may have more than theirs
		if !ok || j.world.LostAgo == 0 || waited >= patience || float64(room) >= need {
			return room, ok
		}
		j.env.Sleep(look)
	}
}

// journalBytes is about the most that pre-images take: of the rows that epochs write, and the
// room with which their memory grows.
func (j *job) journalBytes(rows float64) float64 {
	if !j.protects() {
		return 0
	}
	const epochs, grows = 3, 1.5 // see commit: active, sealed, and one that is retired
	owners := 0
	for _, id := range j.hosted {
		if j.roles.owner(id) >= 0 {
			owners++
		}
	}
	lookups := float64(j.cfg.Train.GlobalBatch) * float64(len(j.schema.Tables)) / float64(j.roles.rows) * float64(owners)
	return grows * epochs * min(float64(j.cfg.EC.CommitEvery)*lookups*float64(j.bytesPerRow()), rows)
}

// RowBytes is how much the rows of one of so many processes take, with their optimizer
// state and the parities of others', once all have been touched; 0 where the config is
// of no use.
func RowBytes(cfg *config.Config, processes int) int64 {
	if processes < 1 {
		return 0
	}
	j := newJob(env.Real(), cfg, Options{World: &World{Processes: processes}})
	if j.layOut() != nil {
		return 0
	}
	rows, _ := j.bytes()
	return int64(min(rows, 1<<62))
}

// Check tells what of a config no machines could train: how its ranks are grouped.
func Check(cfg *config.Config) error {
	return newJob(env.Real(), cfg, Options{World: &World{Processes: 1}}).layOut()
}

// size is machine.Size for sizes that no machine has, too.
func size(bytes float64) string { return machine.Size(int64(min(bytes, 1<<62))) }

// pairBytes is about what a pair of ranks of one process takes in lanes and
// requests: 256 ranks took 1.9 KiB for each.
const pairBytes = 2 << 10

// bytes is what the ranks of this process take when every row has been touched, with
// the parities of others' rows but without what commits hold for an epoch. Sizes
// that a config can ask for pass 2^63, so sums over ranks are float64.
func (j *job) bytes() (rows, rest float64) {
	m, f := j.cfg.Model, int64(len(j.schema.Tables)+1)
	d := int64(j.width)
	perSample := 3*f*d + f*(f-1)/2 + int64(j.schema.Dense) + 4 // features, gradient, rows; dots; input
	widest := d + f*(f-1)/2
	params, in := int64(0), int64(j.schema.Dense)
	for i, mlp := range [][]int{m.BottomMLP, m.TopMLP} {
		if i == 1 {
			in = d + f*(f-1)/2
		}
		for _, out := range mlp {
			perSample += int64(out)
			params += (in + 1) * int64(out)
			widest = max(widest, int64(out))
			in = int64(out)
		}
	}
	perSample += 4 * widest // two gradients of activations in each of two chains
	for _, rank := range j.hosted {
		rows += float64(shard.Bytes(shard.Options{Map: j.place, Owner: j.roles.owner(rank), Width: j.width, State: j.sparse.Kind.RowState(j.width)}))
		if owner := j.roles.owner(rank); owner >= 0 && j.protects() {
			rows += float64(j.layout.GroupOf(owner).ParityRows(owner, j.place.Slots(0))) * float64(j.bytesPerRow())
		}
		rest += float64(4*perSample*int64(j.maxSliceOf(rank)) + 4*(3+int64(j.denseOpt.Kind.DenseState(1)))*params)
	}
	return rows, rest + float64(pairBytes*j.ranks*j.ranks)
}

// threads is the number of compute threads of the process: what the config says,
// or its share of the machine's.
func (j *job) threads() int {
	if n := j.cfg.Job.Threads; n > 0 {
		return n
	}
	return max(1, runtime.GOMAXPROCS(0)/j.world.Neighbours)
}
