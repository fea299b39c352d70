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
	d := &st.device
	for _, l := range []struct {
		to   *listCopy
		list []int32
	}{{&d.index, st.Index}, {&d.now, st.Now.Pos}, {&d.later, st.Later.Pos}} {
		l.to.n = 0
		if st.cache != nil || len(l.list) < least || !l.to.makeRoom(dev, 4*len(l.list)) {
			continue
		}
		l.to.n = len(l.list)
		s.Upload(l.to.memory.SliceFloats(0, l.to.n), kernels.BytesOf(l.list))
	}
	return s.Sync()
}

// FreeLists frees the copies of UploadLists. The step can still be trained.
func (st *Step) FreeLists(dev kernels.Device) {
	st.device.forgetAll()
	freeAll(dev, &st.device.index.memory, &st.device.now.memory, &st.device.later.memory)
}
