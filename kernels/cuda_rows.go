package kernels

import (
	"fmt"
	"math"
	"unsafe"
)

func (s *cudaStream) GatherRows(dst, src Matrix, index Buffer) {
	const op = "GatherRows"
	d := src.Cols
	if d == 0 || dst.Cols%d != 0 {
		panic(fmt.Sprintf("kernels: %s: dst has %d columns, no multiple of src's %d", op, dst.Cols, d))
	}
	t := dst.Cols / d
	out := s.matrixOf(op, "dst", dst, dst.Rows, dst.Cols)
	if out.p == 0 {
		return
	}
	n := dst.Rows * t
	s.moveRows(kernelGather, kernelGather4, &cudaGather{
		dst: out, src: s.matrixOf(op, "src", src, src.Rows, d), index: s.indexAddress(op, "index", index, n),
		lookups: int64(n), limit: int64(src.Rows), t: int32(t), d: int32(d), by: divisorOf(t)})
}

func (s *cudaStream) ScatterRows(dst, src Matrix, index Buffer) {
	const op = "ScatterRows"
	if dst.Cols != src.Cols {
		panic(fmt.Sprintf("kernels: %s: dst has %d columns, src %d", op, dst.Cols, src.Cols))
	}
	from := s.matrixOf(op, "src", src, src.Rows, src.Cols)
	ids := s.indexAddress(op, "index", index, src.Rows)
	if from.p == 0 {
		return
	}
	s.moveRows(kernelScatter, kernelScatter4, &cudaGather{dst: s.matrixOf(op, "dst", dst, dst.Rows, dst.Cols), src: from, index: ids,
		lookups: int64(src.Rows), limit: int64(dst.Rows), t: 1, d: int32(src.Cols)})
}

// moveRows copies rows by index, four floats at a time if they are aligned.
func (s *cudaStream) moveRows(one, four cudaKernel, p *cudaGather) {
	p.fault = uintptr(s.fault.ptr)
	k, n := one, int(p.d)
	if by4(n, p.dst, p.src) {
		k, n = four, n/4
	}
	if p.lookups > math.MaxInt32 {
		s.setError(fmt.Errorf("%s of %d rows: the limit is %d", cudaNames[k], p.lookups, math.MaxInt32))
	}
	x, y := threadsOf(n)
	each := y
	if int(p.lookups) >= rowsAtOnce*y*s.mostBlocks() {
		each *= rowsAtOnce // there is enough work for every group
	}
	s.launchKernel(k, s.blocksOf(int(p.lookups), each), x, y, 0, unsafe.Pointer(p))
}

// rowsAtOnce is the number of rows that a group of threads moves at a time: AT_ONCE in
// cuda/rows.cu.
const rowsAtOnce = 4

func (s *cudaStream) XorRows(dst, a Matrix, ia Buffer, b Matrix, ib Buffer) {
	out := s.matrixOf("XorRows", "dst", dst, dst.Rows, dst.Cols)
	if out.p == 0 {
		return
	}
	s.runXor("XorRows", cudaXor{dst: out, rows: int64(dst.Rows), op: opXorRows}, dst.Cols, a, ia, b, ib)
}

func (s *cudaStream) FoldRows(dst Matrix, index Buffer, src Matrix, from Buffer, factors []byte) {
	const op = "FoldRows"
	checkFactors(op, factors, index)
	p := cudaXor{rows: int64(index.Floats()), op: opFoldRows}
	if len(factors) > 0 {
		p.factors = s.stageList(factors)
	}
	s.runXor(op, p, dst.Cols, dst, index, src, from)
}

func (s *cudaStream) runXor(op string, p cudaXor, d int, a Matrix, ia Buffer, b Matrix, ib Buffer) {
	if d != a.Cols || d != b.Cols {
		panic(fmt.Sprintf("kernels: %s of rows of %d, %d and %d columns", op, d, a.Cols, b.Cols))
	}
	if p.rows == 0 || d == 0 {
		return
	}
	p.a, p.ia, p.aLimit = s.matrixOf(op, "first", a, a.Rows, d), s.indexAddress(op, "first index", ia, int(p.rows)), int64(a.Rows)
	p.b, p.ib, p.bLimit = s.matrixOf(op, "second", b, b.Rows, d), s.indexAddress(op, "second index", ib, int(p.rows)), int64(b.Rows)
	p.fault, p.d = uintptr(s.fault.ptr), int32(d)
	k, n := kernelXor, d
	if by4(d, p.dst, p.a, p.b) {
		k, n = kernelXor4, d/4
	}
	x, y := threadsOf(n)
	s.launchKernel(k, s.blocksOf(int(p.rows), y), x, y, 0, unsafe.Pointer(&p))
}

func (s *cudaStream) InitRows(rows Matrix, slots Buffer, init RowInit) {
	s.drawRows("InitRows", rows, slots, init, rows.Rows, 0)
}

func (s *cudaStream) XorInit(rows Matrix, slots Buffer, init RowInit) {
	s.drawRows("XorInit", rows, slots, init, math.MaxInt32+1, 1)
}

func (s *cudaStream) drawRows(op string, rows Matrix, slots Buffer, init RowInit, limit int, each int32) {
	n := slots.Floats()
	if n == 0 {
		return
	}
	init.check(op, rows.Cols)
	if each != 0 && n != rows.Rows {
		panic(fmt.Sprintf("kernels: %s: %d slots for %d rows", op, n, rows.Rows))
	}
	p := cudaDraw{rows: s.matrixOf(op, "rows", rows, rows.Rows, rows.Cols), slots: s.indexAddress(op, "slots", slots, n),
		fault: uintptr(s.fault.ptr),
		seed:  init.Seed, n: int64(n), limit: int64(limit), owners: int64(init.Owners), owner: int64(init.Owner),
		tables: int32(len(init.Base) - 1), width: int32(init.Width), cols: int32(rows.Cols), each: each, parts: int32(init.countParts())}
	for part := range init.countParts() {
		p.widths[part] = int32(init.widthOf(part))
	}
	s.uploadTables(&init)
	p.base, p.scale = uintptr(s.base.buf.ptr), uintptr(s.base.scale.ptr)
	x, y := threadsOf((rows.Cols + 3) / 4)
	s.launchKernel(kernelDraw, s.blocksOf(n, y), x, y, 0, unsafe.Pointer(&p))
}

// uploadTables copies the tables of a RowInit to the GPU, unless the last RowInit's are the
// same.
func (s *cudaStream) uploadTables(init *RowInit) {
	t := &s.base
	if s.err != nil || t.of == &init.Base[0] && t.scales == &init.Scale[0] {
		return
	}
	t.of, t.scales = &init.Base[0], &init.Scale[0]
	base := unsafe.Slice((*uint64)(unsafe.Pointer(&init.Base[0])), len(init.Base))
	s.growBuffer(&t.buf, 8*len(base))
	s.growBuffer(&t.scale, 4*len(init.Scale))
	if s.err == nil {
		s.Upload(t.buf.Slice(0, 8*len(base)), BytesOf(base))
		s.Upload(t.scale.SliceFloats(0, len(init.Scale)), BytesOf(init.Scale))
	}
}

func (s *cudaStream) SumRows(dst, src Matrix, start, pos Buffer) {
	const op = "SumRows"
	if dst.Rows == 0 || dst.Cols == 0 {
		return
	}
	p := cudaSegments{dst: s.matrixOf(op, "dst", dst, dst.Rows, dst.Cols), op: opSumRows}
	s.sumSegments(op, &p, src, dst.Cols, start, pos, dst.Rows)
}

func (s *cudaStream) UpdateRows(rule RowRule, rows Matrix, slots Buffer, grads Matrix, start, pos Buffer) {
	const op = "UpdateRows"
	n, d := slots.Floats(), grads.Cols
	if n == 0 {
		return
	}
	spans := rule.layOut(op, d, rows.Cols)
	p := cudaSegments{op: opUpdateRows, update: int32(rule.count), rows: s.matrixOf(op, "rows", rows, rows.Rows, rows.Cols),
		slots: s.indexAddress(op, "slots", slots, n), slotLimit: int64(rows.Rows)}
	for k, x := range spans[:rule.count] {
		p.parts[k] = cudaRowPart{opt: cudaOptimizerOf(rule.parts[k].Optimizer), first: int32(x.first), width: int32(x.width), state: int32(x.state)}
	}
	s.sumSegments(op, &p, grads, d, start, pos, n)
}

// As in cuda/sums.cu.
const (
	longSegment   = 64
	longColumns   = 8
	longThreads   = 5 // warps of a block
	longBlocks    = 4 // of a processor
	longCounters  = 4
	sumsAtOnce    = 2 // segments that a group takes at a time
	updatesAtOnce = 1 // if the rule has state of a weight
)

// sumSegments sums n segments of src over d floats, and stores the sums or updates rows by
// them, as p demands.
func (s *cudaStream) sumSegments(op string, p *cudaSegments, src Matrix, d int, start, pos Buffer, n int) {
	if src.Cols%d != 0 {
		panic(fmt.Sprintf("kernels: %s: src has %d columns, no multiple of %d", op, src.Cols, d))
	}
	p.src = s.matrixOf(op, "src", src, src.Rows, src.Cols)
	p.start, p.pos = s.indexAddress(op, "start", start, n+1), s.indexAddress(op, "pos", pos, pos.Floats())
	p.t, p.d, p.n, p.positions, p.fault = int32(max(src.Cols/d, 1)), int32(d), int64(n), int64(pos.Floats()), uintptr(s.fault.ptr)
	p.limit, p.by = int64(src.Rows)*int64(p.t), divisorOf(int(p.t))
	most := pos.Floats() / longSegment // segments that can be long
	s.turn = 1 - s.turn
	if bytes := 4 * (2*longCounters + most); s.long.bytes < bytes {
		if s.growBuffer(&s.long, bytes); s.err == nil {
			s.Zero(s.long.Slice(0, 4*2*longCounters)) // each call clears the counters of the next
		}
	}
	if p.update != 0 {
		s.growBuffer(&s.sums, 4*d*most)
		p.sums = uintptr(s.sums.ptr)
	}
	p.longOnes, p.turn = uintptr(s.long.ptr), s.turn
	if s.err != nil {
		return
	}
	if !s.launchSegments(op, p, n) || most == 0 {
		return
	}
	s.launchKernel(kernelSumLong, min(most*((d+longColumns-1)/longColumns), longBlocks*s.d.Processors), 32, longThreads, 0, unsafe.Pointer(p))
	if p.update != 0 {
		s.launchKernel(kernelUpdateLong, min(most, longBlocks*s.d.Processors), 128, 1, 0, unsafe.Pointer(p))
	}
}

// segmentKernel returns the kernel for n segments that are not long, the columns that a thread
// takes at once, the segments that a group takes at once, and the shared memory of a group.
func segmentKernel(p *cudaSegments) (k cudaKernel, four bool, each, shared int) {
	d := int(p.d)
	switch k, four = kernelSegments, by4(d, p.src); {
	case p.update == 0:
		if p.factors != 0 {
			k = kernelWeighted
		}
		if four = four && by4(d, p.dst); four {
			k++
		}
		return k, four, sumsAtOnce, 0
	case p.update == 1 && four && p.parts[0].first == 0 && int(p.parts[0].width) == d && int(p.parts[0].state) == d:
		if kind := OptimizerKind(p.parts[0].opt.kind); kind == RowwiseAdagrad {
			if shared = 4 * sumsAtOnce * (d + 8); shared <= plainShared {
				return kernelUpdateRowwise, true, sumsAtOnce, shared
			}
		} else if by4(d, p.rows) && int(kind) < len(rowKernels) {
			if k = rowKernels[kind]; k == kernelUpdateRows0 {
				return k, true, sumsAtOnce, 0
			}
			return k, true, updatesAtOnce, 0
		}
	}
	if k = kernelUpdateParts; four {
		k++
	}
	return k, four, 1, 4 * ((d+3)&^3 + 8) // a gradient and its squares' lanes
}

// rowKernels are the kernels for rows of one part, by rule.
var rowKernels = [...]cudaKernel{SGD: kernelUpdateRows0, Momentum: kernelUpdateRows1, Adagrad: kernelUpdateRows1,
	Adam: kernelUpdateRows2, AdamW: kernelUpdateRows2, FTRL: kernelUpdateRows2}

// launchSegments starts the kernel for the segments that are not long, which lists the long ones.
func (s *cudaStream) launchSegments(op string, p *cudaSegments, n int) bool {
	k, four, each, shared := segmentKernel(p)
	lanes := int(p.d)
	if four {
		lanes /= 4
	}
	x, y := threadsOf(lanes)
	for y > 1 && y*shared > sumShared {
		y /= 2
	}
	if y*shared > plainShared {
		s.setError(fmt.Errorf("%s of rows of %d weights: %d fit", op, p.d, plainShared/4-8))
		return false
	}
	s.launchKernel(k, s.blocksOf(n, y*each), x, y, y*shared, unsafe.Pointer(p))
	return true
}

// sumShared is the shared memory in bytes that the gradients of a block's groups may take.
// plainShared is the shared memory of a kernel that does not opt in to more.
const (
	sumShared   = 32 << 10
	plainShared = 48 << 10
)
