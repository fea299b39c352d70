// A stand-in for libnccl.so.2, over sockets between the ranks' processes. Like NCCL's, its
// operations run in the order of a stream and wait for all ranks. They do not detect the death of
// a rank: they wait until the communicator is aborted.
//
// ECREC_STANDIN_NCCL_FAIL=RANK:OPERATION gives a rank's communicator an error at an operation.
// With ECREC_STANDIN_NCCL_ABORT_WAITS=1 an abort returns when all ranks, which are in one process, have
// begun theirs: an abort of NCCL waits for other work of the GPU, which may wait for those ranks.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <map>
#include <memory>
#include <mutex>
#include <poll.h>
#include <random>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

enum { OK = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6, IN_PROGRESS = 7 };

typedef int (*launch_fn)(void *stream, void (*)(void *), void *);

// launch is cuLaunchHostFunc of the driver beside this library.
launch_fn launch() {
	static launch_fn found = [] {
		Dl_info here;
		dladdr((void *)launch, &here);
		std::string path(here.dli_fname);
		void *h = dlopen((path.substr(0, path.rfind('/') + 1) + "libcuda.so.1").c_str(), RTLD_NOW);
		return h ? (launch_fn)dlsym(h, "cuLaunchHostFunc") : nullptr;
	}();
	return found;
}

struct Comm {
	int rank, ranks;
	std::string name;
	std::vector<int> peers; // sockets, by rank
	std::atomic<int> state{IN_PROGRESS}, running{0}, calls{0};
	std::atomic<bool> aborted{false}, late{false};
	std::thread meeting;

	~Comm() {
		for (int fd : peers)
			if (fd >= 0)
				close(fd);
	}
};

socklen_t addressOf(sockaddr_un *a, const std::string &name) { // abstract: no file stays behind
	memset(a, 0, sizeof *a);
	a->sun_family = AF_UNIX;
	size_t n = std::min(name.size(), sizeof a->sun_path - 1);
	memcpy(a->sun_path + 1, name.data(), n);
	return offsetof(sockaddr_un, sun_path) + 1 + n;
}

// whole sends or receives all of n bytes, unless the communicator is aborted.
bool whole(Comm *c, int fd, void *p, size_t n, bool out) {
	char *at = (char *)p;
	while (n > 0) {
		if (c->aborted)
			return false;
		ssize_t k = out ? send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, at, n, MSG_DONTWAIT);
		if (k > 0) {
			at += k;
			n -= k;
			continue;
		}
		usleep(100); // not ready, or no peer yet: try again
	}
	return true;
}

bool meet(Comm *c) {
	int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	sockaddr_un a;
	socklen_t n = addressOf(&a, c->name + std::to_string(c->rank));
	if (bind(door, (sockaddr *)&a, n) != 0 || listen(door, c->ranks) != 0)
		return close(door), false;
	bool good = true;
	for (int r = 0; r < c->rank && good; r++) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		n = addressOf(&a, c->name + std::to_string(r));
		while (connect(fd, (sockaddr *)&a, n) != 0 && !c->aborted)
			usleep(500);
		c->peers[r] = fd;
		int32_t mine = c->rank;
		good = whole(c, fd, &mine, sizeof mine, true);
	}
	for (int left = c->ranks - 1 - c->rank; left > 0 && good; left--) {
		pollfd p = {door, POLLIN, 0};
		while (poll(&p, 1, 10) == 0 && !c->aborted)
			;
		int fd = c->aborted ? -1 : accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
		int32_t theirs = -1;
		good = fd >= 0 && whole(c, fd, &theirs, sizeof theirs, false) && theirs > c->rank && theirs < c->ranks;
		if (good)
			c->peers[theirs] = fd;
	}
	close(door);
	return good;
}

struct Op {
	void *at;
	uint64_t bytes;
	int peer;
	bool out, sum;
	std::shared_ptr<Comm> comm;
	void *stream;
};

// side is the progress of one direction with a peer: eight bytes with the length, then the data.
struct Side {
	Op *op;
	uint64_t head, done;
};

bool advance(Side *s) {
	int fd = s->op->comm->peers[s->op->peer];
	while (s->done < 8 + s->op->bytes) {
		char *at = s->done < 8 ? (char *)&s->head + s->done : (char *)s->op->at + (s->done - 8);
		size_t n = s->done < 8 ? 8 - s->done : 8 + s->op->bytes - s->done;
		ssize_t k = s->op->out ? send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, at, n, MSG_DONTWAIT);
		if (k <= 0)
			return false;
		s->done += k;
		if (!s->op->out && s->done == 8 && s->head != s->op->bytes) {
			fprintf(stderr, "stand-in NCCL: rank %d sends %llu bytes, rank %d wants %llu\n", s->op->peer, (unsigned long long)s->head, s->op->comm->rank, (unsigned long long)s->op->bytes);
			abort();
		}
	}
	return true;
}

void transfer(std::vector<Op> &ops) {
	std::vector<Side> sides;
	for (Op &o : ops)
		sides.push_back({&o, o.bytes, 0});
	for (size_t left = sides.size(); left > 0;) {
		left = 0;
		for (Side &s : sides) {
			if (s.op->comm->aborted)
				return;
			left += !advance(&s);
		}
		if (left > 0)
			usleep(50);
	}
}

// allReduce adds in an order that no other code uses: from the last rank to the first.
void allReduce(Op &o) {
	Comm *c = o.comm.get();
	std::vector<std::string> parts(c->ranks, std::string(o.bytes, 0));
	parts[c->rank].assign((char *)o.at, o.bytes);
	std::vector<Op> ops;
	for (int r = 0; r < c->ranks; r++)
		if (r != c->rank) {
			ops.push_back({&parts[c->rank][0], o.bytes, r, true, false, o.comm, o.stream});
			ops.push_back({&parts[r][0], o.bytes, r, false, false, o.comm, o.stream});
		}
	transfer(ops);
	for (uint64_t i = 0; i < o.bytes / 4; i++) {
		float sum = 0;
		for (int r = c->ranks - 1; r >= 0; r--)
			sum += ((float *)&parts[r][0])[i];
		((float *)o.at)[i] = sum;
	}
}

void runGroup(void *p) {
	std::unique_ptr<std::vector<Op>> ops((std::vector<Op> *)p);
	std::shared_ptr<Comm> c = ops->front().comm;
	c->running++;
	const char *fail = getenv("ECREC_STANDIN_NCCL_FAIL");
	int rank = -1, call = -1;
	if (fail && sscanf(fail, "%d:%d", &rank, &call) == 2 && rank == c->rank && c->calls == call) {
		c->state = REMOTE_ERROR;
		while (!c->aborted)
			usleep(100);
	}
	c->calls++;
	if (ops->front().sum)
		allReduce(ops->front());
	else
		transfer(*ops);
	c->running--;
}

thread_local int depth;
thread_local std::vector<Op> group;

int flush() {
	if (group.empty())
		return OK;
	Op first = group.front();
	auto *ops = new std::vector<Op>(std::move(group));
	group.clear();
	if (launch() == nullptr || launch()(first.stream, runGroup, ops) != 0)
		return SYSTEM_ERROR;
	first.comm->late = true; // reports once that it is still in progress
	return IN_PROGRESS;
}

int add(Op o) {
	for (Op &x : group)
		if (x.comm != o.comm || x.stream != o.stream || (x.peer == o.peer && x.out == o.out))
			return INVALID_USAGE; // not needed here
	if (o.comm->aborted || o.comm->state == IN_PROGRESS)
		return INVALID_USAGE;
	group.push_back(o);
	return depth > 0 ? OK : flush();
}

std::shared_ptr<Comm> &of(void *comm) { return *(std::shared_ptr<Comm> *)comm; }

int end(void *comm) {
	std::shared_ptr<Comm> c = of(comm);
	delete (std::shared_ptr<Comm> *)comm;
	c->aborted = true;
	if (c->meeting.joinable())
		c->meeting.join();
	while (c->running > 0)
		usleep(50);
	return OK;
}

void waitForAborts(Comm *c) {
	static std::mutex guard;
	static std::map<std::string, int> begun; // aborts, by communicator
	int mine = 1;
	for (bool all = false; !all; usleep(100)) {
		std::lock_guard<std::mutex> lock(guard);
		begun[c->name] += mine;
		mine = 0;
		all = begun[c->name] >= c->ranks;
	}
}

} // namespace

extern "C" {

struct unique_id {
	char bytes[128];
};
struct config {
	size_t size;
	unsigned magic, version;
	int blocking;
};

int ncclGetVersion(int *v) { return *v = 22703, OK; }
const char *ncclGetErrorString(int status) {
	switch (status) {
	case SYSTEM_ERROR: return "unhandled system error";
	case INVALID_ARGUMENT: return "invalid argument";
	case INVALID_USAGE: return "invalid usage";
	case REMOTE_ERROR: return "remote process exited or there was a network error";
	}
	return "unknown";
}

int ncclGetUniqueId(unique_id *id) {
	std::random_device random;
	memset(id, 0, sizeof *id);
	snprintf(id->bytes, sizeof id->bytes, "ecrec-nccl-%d-%08x%08x-", getpid(), random(), random());
	return OK;
}

int ncclCommInitRankConfig(void **comm, int ranks, unique_id id, int rank, config *o) {
	if (o->magic != 0xcafebeef || o->size < sizeof *o || o->blocking != 0 || rank < 0 || rank >= ranks || id.bytes[0] == 0)
		return INVALID_ARGUMENT;
	std::shared_ptr<Comm> c(new Comm);
	c->rank = rank;
	c->ranks = ranks;
	c->name = id.bytes;
	c->peers.assign(ranks, -1);
	Comm *meets = c.get();
	c->meeting = std::thread([meets] {
		if (meet(meets))
			meets->state = OK;
		else if (!meets->aborted)
			meets->state = SYSTEM_ERROR;
	});
	*comm = new std::shared_ptr<Comm>(c);
	return IN_PROGRESS;
}

int ncclCommGetAsyncError(void *comm, int *state) {
	*state = of(comm)->state;
	if (*state == OK && of(comm)->late.exchange(false))
		*state = IN_PROGRESS;
	return OK;
}
int ncclCommAbort(void *comm) {
	if (getenv("ECREC_STANDIN_NCCL_ABORT_WAITS"))
		waitForAborts(of(comm).get());
	return end(comm);
}
int ncclCommDestroy(void *comm) { return end(comm); }
int ncclCommFinalize(void *) { return OK; }

int ncclGroupStart() { return depth++, OK; }
int ncclGroupEnd() { return --depth == 0 ? flush() : OK; }

int ncclSend(const void *p, size_t n, int type, int peer, void *comm, void *stream) {
	return type != 0 ? INVALID_ARGUMENT : add({(void *)p, n, peer, true, false, of(comm), stream});
}
int ncclRecv(void *p, size_t n, int type, int peer, void *comm, void *stream) {
	return type != 0 ? INVALID_ARGUMENT : add({p, n, peer, false, false, of(comm), stream});
}
int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, void *comm, void *stream) {
	return from != to || type != 7 || op != 0 ? INVALID_ARGUMENT : add({to, 4 * n, -1, true, true, of(comm), stream});
}
}
