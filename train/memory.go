package train

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
	"github.com/ecrec/ecrec/store"
)

// checkMemory refuses a job whose rows and activations cannot fit, before anything is
// allocated. Before the data is open it counts the rows alone. It does not refuse the
// substitute of a lost process, which finds the memory of the others in use, and perhaps that
// of the lost one.
func (j *job) checkMemory() error {
	if slots := j.place.Slots(0); slots > shard.MaxSlots {
		return tooManySlots(j, slots)
	}
	if err := j.checkTier(); err != nil {
		return err
	}
	rows, rest := j.bytesNeeded()
	if err := j.checkAddressSpace(rows + rest); err != nil {
		return err
	}
	if room, ok := j.placeRows(rows, rest, j.gpuRoom); ok {
		if j.lacksRoom(rest, room) {
			return config.Errorf("memory: activations and buffers take %s, and this process has %s of %s; use a smaller "+
				"train.global_batch, or more GPUs and job.ranks",
				size(rest), machine.Size(max(room, 0)), j.dev.Name())
		}
		rest = 0
	}
	available, ok := machine.AvailableMemory()
	if !ok || j.o.WrapDevice != nil || j.world.LostAgo > 0 || j.dev != j.host && !j.far {
		return nil
	}
	return j.fitsMemory(rows, rest, float64(available))
}

// tooManySlots is the error of ranks that would own too many rows.
func tooManySlots(j *job, slots int64) error {
	return config.Errorf("model.tables: each of %d ranks would own %d rows, at most %d fit; use more job.ranks",
		j.roles.rows, slots, shard.MaxSlots)
}

// fitsMemory compares the need of all processes of this machine with its available memory.
// Rows and rest are the need of one process.
func (j *job) fitsMemory(rows, rest, available float64) error {
	held := (j.journalBytes() + asideBytes(j)) * float64(j.world.Neighbours)
	rows, rest = rows*float64(j.world.Neighbours), rest*float64(j.world.Neighbours)
	processes := j.processBytes()
	need := rows + rest + processes
	if need > available {
		return config.Errorf("memory: the job needs %s (rows and optimizer state %s, activations and buffers %s, processes %s), this "+
			"machine has %s available; use smaller model.tables or model.embedding_dim, a smaller train.global_batch, or fewer job.ranks",
			size(need), size(rows), size(rest), size(processes), size(available))
	}
	if need+held > available && slices.Contains(j.hosted, 0) {
		j.warnOnce(warnMemory, fmt.Sprintf("memory: the job needs %s, and commits and saves hold up to %s more, depending on how many "+
			"rows the steps change; this machine has %s available, and where that runs out the system kills processes; a smaller "+
			"ec.commit_every takes less",
			size(need), size(held), size(available)))
	}
	return nil
}

// Memory of the workers of a machine beside rows and activations, after the check. Measured in
// jobs of few rows on two cores, as the growth of a memory cgroup from the check to its peak:
// 5 MB with 3 processes, 25 with 6 and 42 with 9. Before the check a supervisor or launcher
// uses 4 MB, and a worker 7.
const (
	workerBytes = 1 << 20 // stacks, heap and their kernel memory
	// standbyBytes is the memory of a standby that it shares with no other process: 5.7 MB of heap,
	// stacks and data of the program.
	standbyBytes = 5 << 20
	linkBytes    = 512 << 10 // two rings of shared memory between two processes
)

// processBytes is how much memory this machine's workers still allocate for themselves. It is
// below the measured values, so that no job is refused that would fit.
func (j *job) processBytes() float64 {
	n := j.world.Neighbours
	if j.world.Processes == 1 {
		return 0
	}
	bytes := n * workerBytes
	if j.coded() && j.cfg.Elastic.Standby {
		bytes += n * standbyBytes
	}
	if t := j.cfg.Collectives.Transport; t == "auto" || t == "nccl" {
		bytes += n * (n - 1) / 2 * linkBytes
	}
	return float64(bytes)
}

// leastGrowth is the least growth of a process's address space after the check. A run of a
// few rows used 9 MiB of 29, and failed with 4.
const leastGrowth = 8 << 20

// checkAddressSpace refuses a job that must map more than the process may (ulimit -v). The
// runtime would end the process with a trace. If the limit is above the machine's memory, the
// arena of the rows may be mapped already, and checkMemory finds a job that is too large.
func (j *job) checkAddressSpace(need float64) error {
	left, limit, limited := machine.AddressSpaceLeft()
	memory, err := machine.ReadMemory()
	if !limited || err != nil || limit > memory.Total || j.world.LostAgo > 0 || need+leastGrowth <= float64(left) {
		return nil
	}
	return config.Errorf("address space: this process must map %s for rows, activations and buffers, and may map %s of the %s that "+
		"ulimit -v allows; raise the limit (ulimit -v unlimited), or use smaller model.tables, a smaller train.global_batch, or more processes",
		size(need+leastGrowth), machine.Size(left), machine.Size(limit))
}

// placeRows puts rows into the host's memory if the GPU has no room for them beside the
// rest. RoomFor returns this process's share of a GPU that must hold need bytes, and false
// without a GPU; placeRows returns its results.
func (j *job) placeRows(rows, rest float64, roomFor func(need float64) (room int64, ok bool)) (room int64, ok bool) {
	beside := rest + j.leastCacheBytes()
	near := rows + j.journalBytes()
	if room, ok = roomFor(near + beside); !ok || j.lacksRoom(rest, room) {
		return room, ok
	}
	if !j.far && near+beside > float64(room) {
		j.o.Observer.Warned(fmt.Sprintf("rows and optimizer state of %s lie in the host's memory, which steps read over the bus: of %s "+
			"this process, one of %d on its machine, has %s, of which other buffers take %s; with more GPUs they would fit",
			size(rows), j.dev.Name(), j.world.Neighbours, machine.Size(room), size(beside)))
		j.far = true
		kernels.KeepRowsOnHost(j.dev)
	}
	left := float64(room) - rest
	if !j.far {
		left -= near
	}
	const share = 0.8                                                      // the rest is for buffers that grow with batches
	j.cacheRoom = int64(max(0, share*left)) / int64(max(1, len(j.hosted))) // a spare has no ranks yet
	return room, true
}

// lacksRoom reports whether a GPU has too little room for a job that starts.
func (j *job) lacksRoom(rest float64, room int64) bool {
	return rest > float64(room) && j.world.LostAgo == 0
}

// gpuRoom is the room on the GPU of a process that has allocated nothing. The substitute of a
// lost process waits for the driver to free the memory of that one, if it needs it.
func (j *job) gpuRoom(need float64) (room int64, ok bool) {
	const patience, look = 3 * time.Second, 50 * time.Millisecond
	for waited := time.Duration(0); ; waited += look {
		share, free, ok := kernels.GPURoom(j.dev, j.world.Neighbours)
		room = min(share, free) // others may use more than their share
		if !ok || j.world.LostAgo == 0 || waited >= patience || float64(room) >= need {
			return room, ok
		}
		j.env.Sleep(look)
	}
}

// ownedBytes is the size of all rows that the ranks of this process own, wherever they are, and about the most of them that one
// epoch writes.
func (j *job) ownedBytes() (all, epoch float64) {
	owners := 0
	for _, id := range j.hosted {
		if j.roles.ownerOf(id) >= 0 {
			owners++
		}
	}
	row := float64(j.bytesPerRow())
	all = float64(owners) * float64(j.place.Slots(0)) * row
	lookups := float64(j.cfg.Train.GlobalBatch) * j.idsPerSample() / float64(j.roles.rows) * float64(owners)
	return all, min(float64(j.cfg.EC.CommitEvery)*lookups*row, all)
}

// epochs is how many epochs have memory at a time, in packages commit and store: the active one, the sealed one, and one whose memory is
// used again, or that waits to be written.
const epochs = 3

// journalBytes is about the most memory of pre-images, with the spare room with which it grows, and of copies of rows for logs.
func (j *job) journalBytes() (bytes float64) {
	const grows = 1.5
	_, epoch := j.ownedBytes()
	if j.commits() {
		bytes = grows * epochs * epoch
	}
	if j.stores() {
		bytes += epochs * epoch
	}
	return bytes
}

// asideBytes is about the most memory of rows that are aside for a save beside training.
func asideBytes(j *job) float64 {
	if c := j.cfg.Checkpoint; c.Dir == "" || c.Every.Steps == 0 && c.Every.Time == 0 {
		return 0
	}
	all, _ := j.ownedBytes()
	return asideShare * all
}

// RowBytes is the memory of the rows of one of a number of processes when all rows have been
// touched, with optimizer state and the parities of other ranks' rows. It is 0 if the config
// is invalid.
func RowBytes(cfg *config.Config, processes int) int64 {
	if processes < 1 {
		return 0
	}
	j := newJob(env.Real(), cfg, Options{World: &World{Processes: processes}})
	if j.resolveTopology() != nil {
		return 0
	}
	rows, _ := j.bytesNeeded()
	return int64(min(rows, 1<<62))
}

// Check returns an error if the ranks of a config cannot be grouped for its code.
func Check(cfg *config.Config) error {
	return newJob(env.Real(), cfg, Options{World: &World{Processes: 1}}).resolveTopology()
}

// size is machine.Size, also for sizes above 2^63.
func size(bytes float64) string { return machine.Size(int64(min(bytes, 1<<62))) }

// pairBytes is about the memory of channels and requests between a rank of a process and another rank. With
// 256 ranks in one process it was 1.9 KiB.
const pairBytes = 2 << 10

// bytesNeeded is the memory of this process's ranks when every row has been touched, with the
// parities of other ranks' rows, and without that of epochs. Sizes of a config can exceed
// 2^63, so sums over ranks are float64.
func (j *job) bytesNeeded() (rows, rest float64) {
	const perSampleInput = 4 // label, weight, loss, gradient of the logit
	perSample := int64(j.shape.Activations+j.schema.Dense+perSampleInput) + int64(j.idsPerSample()*float64(j.width))
	params, saved := int64(j.shape.DenseParams()), int64(j.shape.SavedFloats()) // saved: in the model and in a snapshot
	for _, rank := range j.hosted {
		rows += float64(shard.Bytes(j.rowOptions(j.roles.ownerOf(rank))))
		if owner := j.roles.ownerOf(rank); owner >= 0 && j.coded() {
			rows, rest = rows+float64(parityRows(j, owner)*int64(j.bytesPerRow())), rest+parityPlaceBytes(j, owner)
		}
		if owner := j.roles.ownerOf(rank); owner >= 0 && j.stores() {
			rows += float64(store.IndexBytes * j.place.Slots(0))
		}
		if savesIncrements(j.cfg.Checkpoint, j.o.EvalOnly) {
			rows += float64(shard.WrittenBytes(j.rowOptions(j.roles.ownerOf(rank))))
		}
		rest += float64(4*perSample*int64(j.maxSliceOf(rank)) + 4*(1+int64(j.denseOpt.Kind.DenseState(1)))*params + 4*2*saved +
			4*int64(j.shape.Constants))
	}
	return rows, rest + float64(pairBytes*len(j.hosted)*j.ranks)
}

// parityRows is the number of parity rows of an owner.
func parityRows(j *job, owner int) int64 {
	return j.layout.GroupOf(owner).ParityRows(owner, j.place.Slots(0))
}

// parityPlaceBytes is the memory of the list of their places.
func parityPlaceBytes(j *job, owner int) float64 {
	if j.dev != j.host && !j.far {
		return 0
	}
	return float64(parityRows(j, owner) * commit.PlaceBytes)
}

// threadCount is the number of compute threads of the process: job.threads, or its share of
// the machine's.
func (j *job) threadCount() int {
	if n := j.cfg.Job.Threads; n > 0 {
		return n
	}
	if j.world.Cores > 0 {
		return max(1, int(j.world.Cores))
	}
	return max(1, runtime.GOMAXPROCS(0)/j.world.Neighbours)
}

// leastFrames is the least number of rows of a rank that are in memory.
const leastFrames = 256

// rowOptions describes the rows of an owner, -1 for a rank that owns none, and how many of them are in memory.
func (j *job) rowOptions(owner int) shard.Options {
	o := j.shardOptions(owner)
	o.Packed = j.dev == j.host
	if j.tiers() {
		known, each := j.tierBytes()
		lookups := int64(float64(j.cfg.Train.GlobalBatch) * j.idsPerSample() / float64(j.roles.rows)) // of a step
		o.Frames, o.Ahead = shareMemory(o, int64(j.cfg.Store.DRAMBytes)-known, each, lookups)
		if j.o.Frames > 0 {
			o.Ahead = int(min(int64(j.o.Frames/(1+aheadShare)), lookups))
			if j.o.Below != nil {
				o.Ahead = 0
			}
			o.Frames = j.o.Frames - o.Ahead
		}
	}
	return o
}

// aheadShare: the rows that are read ahead are at most this part of the frames.
const aheadShare = 2

// shareMemory shares memory among frames, each of which takes some bytes, and rows that are read ahead, at most those of a step.
func shareMemory(o shard.Options, bytes, each, lookups int64) (frames, ahead int) {
	row := shard.RowBytes(o)
	most := min(max(1, bytes/(each+row/aheadShare))/aheadShare, lookups)
	return int(max(1, (bytes-most*row)/each)), int(most)
}

// tierBytes is the memory of a rank for its knowledge of all of its rows, and for each row that is in memory, without rows that are read
// ahead.
func (j *job) tierBytes() (known, each int64) {
	o := j.shardOptions(0)
	o.Frames = 1
	return store.IndexBytes*j.place.Slots(0) + shard.SlotBytes(o), shard.FrameBytes(o)
}

// checkTier refuses a job whose store.dram_bytes are too few.
func (j *job) checkTier() error {
	switch {
	case !j.tiers():
		return nil
	case j.dev != j.host: // job.device = "auto" on a machine with a GPU
		return config.Errorf("store.tier: \"file\" is for CPUs in this version, and the job would run on %s; set job.device = \"cpu\", "+
			"or store.tier = \"dram\"",
			j.dev.Name())
	case j.o.Frames > 0:
		return nil
	}
	known, each := j.tierBytes()
	if least := known + leastFrames*each + leastFrames/aheadShare*shard.RowBytes(j.shardOptions(0)); int64(j.cfg.Store.DRAMBytes) < least {
		return config.Errorf("store.dram_bytes: %s is too little: each rank needs %s, of which the index of its rows takes %s; use at "+
			"least %d, or more job.ranks",
			machine.Size(int64(j.cfg.Store.DRAMBytes)), machine.Size(least), machine.Size(known), least)
	}
	return nil
}
