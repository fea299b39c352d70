/* Preloaded, it makes MKL take its AVX-512 kernels on CPUs of other makers than Intel: without it a
   comparison with PyTorch on such a CPU is one with AVX2. */
int mkl_serv_intel_cpu_true(void) { return 1; }
