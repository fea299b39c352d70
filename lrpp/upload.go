package lrpp

import "github.com/ecrec/ecrec/kernels"

// leastUpload is the length of the lists that UploadLists copies. Shorter ones cost the training
// goroutine little.
const leastUpload = 1 << 20

// UploadLists copies the long lists of a planned step to a device, with a stream of its own, so
// that the training goroutine need not. Lists for which there is no memory are left to it. In
// mode Cached there are none.
func (st *Step) UploadLists(dev kernels.Device, s kernels.Stream) error {
	return st.uploadLists(dev, s, leastUpload)
}

func (st *Step) uploadLists(dev kernels.Device, s kernels.Stream, least int) error {
	st.Now.copied, st.Later.copied = &st.device.now, &st.device.later
	lists := st.copiedLists()
	for i, to := range st.device.all() {
		to.n = 0
		if list := lists[i]; st.cache == nil && len(list) >= least && to.makeRoom(dev, 4*len(list)) {
			to.n = len(list)
			s.Upload(to.memory.SliceFloats(0, to.n), kernels.BytesOf(list))
		}
	}
	return s.Sync()
}

// copiedLists are the lists that deviceLists.all has copies of, in that order.
func (st *Step) copiedLists() [][]int32 {
	return [][]int32{st.Index, st.Now.Start, st.Now.Pos, st.Now.SlotStart, st.Now.SlotPos,
		st.Later.Start, st.Later.Pos, st.Later.SlotStart, st.Later.SlotPos}
}

// FreeLists frees the copies of UploadLists. The step can still be trained.
func (st *Step) FreeLists(dev kernels.Device) {
	st.device.forgetAll()
	for _, c := range st.device.all() {
		freeAll(dev, &c.memory)
	}
}
