// A stand-in for libnvrtc.so.12. Its code is the hash of the source, by which the stand-in of the
// driver recognises the kernels compiled into it.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

struct Program {
	std::string source, image;
};

extern "C" {

int nvrtcVersion(int *major, int *minor) { return *major = 12, *minor = 8, 0; }
const char *nvrtcGetErrorString(int) { return "NVRTC_ERROR_COMPILATION"; }
int nvrtcCreateProgram(void **p, const char *source, const char *, int, const char *const *, const char *const *) {
	return *p = new Program{source, ""}, 0;
}
int nvrtcDestroyProgram(void **p) { return delete (Program *)*p, 0; }

int nvrtcCompileProgram(void *p, int n, const char *const *options) {
	bool fused = true;
	for (int i = 0; i < n; i++)
		fused = fused && strcmp(options[i], "--fmad=false") != 0;
	if (fused) // no bit would agree
		return 6;
	uint64_t hash = 14695981039346656037u; // FNV-1a
	for (unsigned char c : ((Program *)p)->source)
		hash = (hash ^ c) * 1099511628211u;
	char text[64];
	snprintf(text, sizeof text, "stand-in %016llx", (unsigned long long)hash);
	((Program *)p)->image = text;
	return 0;
}

int nvrtcGetProgramLogSize(void *, size_t *n) { return *n = 1, 0; }
int nvrtcGetProgramLog(void *, char *to) { return *to = 0, 0; }
int nvrtcGetCUBINSize(void *p, size_t *n) { return *n = ((Program *)p)->image.size(), 0; }
int nvrtcGetCUBIN(void *p, char *to) { return memcpy(to, ((Program *)p)->image.data(), ((Program *)p)->image.size()), 0; }
int nvrtcGetPTXSize(void *p, size_t *n) { return nvrtcGetCUBINSize(p, n); }
int nvrtcGetPTX(void *p, char *to) { return nvrtcGetCUBIN(p, to); }
}
