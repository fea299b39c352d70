package kernels

import (
	"strings"
	"unsafe"
)

// mostDigitBytes limits the scratch for the digits of each operand of a product of pieces, and
// for the values of pieces that are added up later. Larger products run in several parts.
const mostDigitBytes = 128 << 20

// pieceScratch is the most memory of products of pieces on a stream, apart from scales.
const pieceScratch = 3 * mostDigitBytes

// The tile of cuda/exact_tc.cu, and the padding of digits: rows to panels, links to steps.
const (
	exactM, exactN, exactThreads = 128, 64, 256
	digitRows, digitLinks        = 8, 64
	stageBytes                   = 3 * digitLinks * (exactM + exactN)
)

// exactTiles are the kernels for products of pieces, with the shared memory that they need.
var exactTiles = [...]struct {
	kernel cudaKernel
	shared int
}{{kernelExactProduct, 4 * stageBytes}, {kernelExactProduct2, 2 * stageBytes}, {kernelExactPlain, 0}}

// exactTile returns the index of the fastest of exactTiles that a GPU can run. Those before sm_80
// lack the instructions.
func exactTile(s *cudaStream) int {
	switch {
	case s.tile > 0:
		return s.tile - 1
	case strings.HasPrefix(s.d.Arch, "sm_7"):
		return len(exactTiles) - 1
	}
	for i, t := range exactTiles {
		if t.shared <= s.d.Shared {
			return i
		}
	}
	return len(exactTiles) - 1
}

// exactOperand is an operand of a product of pieces.
type exactOperand struct {
	x      cudaMat
	across bool // (links, rows) in memory
}

// part returns the operand from a row and a link on.
func (o exactOperand) part(row, link int) exactOperand {
	if o.across {
		row, link = link, row
	}
	o.x.p += uintptr(4 * (int64(row)*o.x.stride + int64(link)))
	return o
}

// pieceParts are the parts in which a product of pieces runs: of rows of C, and of links. They
// use the same scratch.
type pieceParts struct {
	rows, links int
	splits      bool // each piece has blocks of its own: there are fewer tiles than multiprocessors
	// Addresses of scratch.
	a, scaleA, b, scaleB, partial uintptr
}

func tilesOf(m, n int) int { return (m + exactM - 1) / exactM * ((n + exactN - 1) / exactN) }

func piecesOf(links int) int { return (links + pieceLinks - 1) / pieceLinks }

// partsOfPieces cuts a product so that its scratch is within limits: links at pieces, for the
// digits of B, then rows of C at tiles, for those of A. It gets the scratch.
func partsOfPieces(s *cudaStream, m, n, k int) (p pieceParts) {
	limit := mostDigitBytes
	if s.digitLimit > 0 {
		limit = s.digitLimit
	}
	pieces := limit / (3 * pieceLinks * padTo(n, digitRows))
	p.splits = piecesOf(k) > 1 && 4*tilesOf(m, n) < 3*s.d.Processors
	if p.splits {
		pieces = min(pieces, limit/(4*m*n))
	}
	p.links = min(max(pieces, 1)*pieceLinks, k)
	pieces = piecesOf(p.links)
	rows := limit / (3 * padTo(p.links, digitLinks))
	p.rows = min(max(rows/exactM, 1)*exactM, m)

	bytes := 0
	take := func(n int) uintptr {
		at := bytes
		bytes += padTo(n, 256)
		return uintptr(at)
	}
	mostA, allB := padTo(p.rows, digitRows), padTo(n, digitRows)
	p.a, p.scaleA = take(3*mostA*padTo(p.links, digitLinks)), take(4*pieces*mostA)
	p.b, p.scaleB = take(3*allB*padTo(p.links, digitLinks)), take(4*pieces*allB)
	if p.splits {
		p.partial = take(4 * pieces * p.rows * n)
	}
	s.growBuffer(&s.digits, bytes)
	base := uintptr(s.digits.ptr)
	for _, x := range []*uintptr{&p.a, &p.scaleA, &p.b, &p.scaleB, &p.partial} {
		*x += base
	}
	return p
}

func padTo(n, to int) int { return (n + to - 1) / to * to }

// runPieces is runProduct in pieces. Chains add up the columns for a bias's gradient.
func (s *cudaStream) runPieces(k cudaKernel, p *cudaProduct) {
	m, n, links := int(p.m), int(p.n), int(p.k)
	a, b := exactOperand{p.a, k == kernelGradWeight}, exactOperand{p.b, k != kernelLinear}
	parts := partsOfPieces(s, m, n, links)
	if s.err != nil {
		return
	}
	for k0 := 0; k0 < links; k0 += parts.links {
		k1 := min(k0+parts.links, links)
		s.writeDigits(b.part(0, k0), parts.b, parts.scaleB, n, k1-k0)
		for row := 0; row < m; row += parts.rows {
			rows := min(parts.rows, m-row)
			s.writeDigits(a.part(row, k0), parts.a, parts.scaleA, rows, k1-k0)
			e := cudaExactProduct{c: p.c, a: parts.a, scaleA: parts.scaleA, b: parts.b, scaleB: parts.scaleB,
				m: int32(rows), n: p.n, k: int32(k1 - k0)}
			e.c.p += uintptr(4 * int64(row) * p.c.stride)
			if k0 > 0 {
				e.more = 1
			}
			if k1 == links {
				e.bias, e.relu, e.gate = p.bias, p.relu, p.gate
				if e.gate.p != 0 {
					e.gate.p += uintptr(4 * int64(row) * p.gate.stride)
				}
			}
			if parts.splits {
				e.partial = parts.partial
			}
			s.multiplyDigits(&e)
		}
	}
	if p.sums != 0 {
		sums := *p
		sums.n = 0
		s.runChains(k, &sums)
	}
}

// multiplyDigits computes a part of a product whose digits are there.
func (s *cudaStream) multiplyDigits(e *cudaExactProduct) {
	m, n := int(e.m), int(e.n)
	tile, elements := exactTiles[exactTile(s)], s.blocksOf(m*n, exactThreads)
	blocks := elements
	if tile.kernel != kernelExactPlain {
		blocks = tilesOf(m, n)
		if e.partial != 0 {
			blocks *= piecesOf(int(e.k))
		}
		blocks = min(blocks, s.d.Processors)
	}
	s.launchKernel(tile.kernel, blocks, exactThreads, 1, tile.shared, unsafe.Pointer(e))
	if e.partial != 0 {
		s.launchKernel(kernelExactSum, elements, exactThreads, 1, 0, unsafe.Pointer(e))
	}
}

// writeDigits writes the digits of rows of an operand, and their scales.
func (s *cudaStream) writeDigits(o exactOperand, to, scales uintptr, rows, links int) {
	p := cudaDigits{x: o.x, to: to, scales: scales, rows: int32(rows), k: int32(links)}
	k, blocks := kernelDigitsAlong, (rows+digitRows-1)/digitRows
	if o.across {
		k, blocks = kernelDigitsAcross, (blocks+1)/2
	} else if by4(0, o.x) {
		p.wide = 1
	}
	s.launchKernel(k, blocks*piecesOf(links), 256, 1, 0, unsafe.Pointer(&p))
}
