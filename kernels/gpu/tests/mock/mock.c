// A driver and libraries that do at once, in host memory, what the real ones do on a GPU: enough to run every call that the crate
// makes and to see that each gets what the real one documents. One file, built once per library with MOCK_<library> defined.
// No NVIDIA header is needed: handles are pointers, enumerations are ints.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long addr;

#ifdef MOCK_cuda
enum { OK = 0, INVALID = 1, NO_MEMORY = 2, UNAVAILABLE = 46, NO_DEVICE = 100, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700 };
#define GPUS 2
#define MEMORY memory()
static unsigned long long memory(void) {
    const char *bytes = getenv("MOCK_MEMORY");
    return bytes ? strtoull(bytes, 0, 10) : 1 << 20;
}

static int count(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return visible && !*visible ? 0 : GPUS;
}

static int pools(void) { const char *text = getenv("MOCK_POOLS"); return text ? atoi(text) : 1; }
static struct { int device; unsigned long long used, reserved, threshold; } gpus[GPUS];
static __thread int current = -1;
static int lost[GPUS], alive, peers, captures;
// What the pool keeps is in pieces: of no use for what is larger than the rest, until it is given back.
static int in_pieces(void) { return getenv("MOCK_IN_PIECES") != 0; }

struct stream { int device, capturing; };
struct event { int device; unsigned flags; double at; };

static int here(void) { return current < 0 ? INVALID : lost[current] ? ILLEGAL_ADDRESS : OK; }
static int on(struct stream *s) { return s->device == current ? here() : INVALID; }
static double now = 0;

int cuInit(unsigned flags) { return flags ? INVALID : count() ? OK : NO_DEVICE; }
int cuDriverGetVersion(int *v) { const char *t = getenv("MOCK_DRIVER"); *v = t ? atoi(t) : 12090; return OK; }
int cuGetErrorString(int e, const char **text) {
    *text = e == NO_DEVICE ? "no CUDA-capable device is detected" : e == ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "mock error";
    return OK;
}
int cuDeviceGetCount(int *n) { *n = count(); return OK; }
int cuDeviceGet(int *device, int n) { *device = n; return OK; }
int cuDeviceGetName(char *name, int length, int device) { snprintf(name, length, "Mock %d", device); return OK; }
int cuDeviceGetPCIBusId(char *bus, int length, int device) { snprintf(bus, length, "0000:%02X:00.0", 0x3a + device); return OK; }
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { for (int i = 0; i < 16; i++) uuid[i] = i + device; return OK; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = MEMORY; return OK; }
int cuDeviceGetAttribute(int *value, int which, int device) {
    (void)device;
    switch (which) {
    case 16: *value = 132; return OK;                               // MULTIPROCESSOR_COUNT
    case 75: *value = 9; return OK;                                 // COMPUTE_CAPABILITY_MAJOR
    case 76: *value = 0; return OK;                                 // COMPUTE_CAPABILITY_MINOR
    case 115: *value = pools(); return OK;                           // MEMORY_POOLS_SUPPORTED
    default: return INVALID;
    }
}
// The GPU of this number does not open.
static int broken(int device) { const char *t = getenv("MOCK_BROKEN"); return t && (*t == '0' + device || *t == '*'); }
int cuDevicePrimaryCtxRetain(void **context, int device) { if (broken(device)) return UNAVAILABLE; gpus[device].device = device; *context = &gpus[device]; alive++; return OK; }
int cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    if (--alive == 0) fprintf(stderr, "mock: contexts are released\n");
    return OK;
}
int cuCtxSetCurrent(void *context) { current = context ? *(int *)context : -1; return OK; }
int cuCtxGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return OK; }
int cuDeviceCanAccessPeer(int *can, int device, int peer) { *can = device != peer; return OK; }
int cuCtxEnablePeerAccess(void *peer, unsigned flags) { (void)peer; peers++; return flags ? INVALID : OK; }
int cuDeviceGetDefaultMemPool(void **pool, int device) { *pool = &gpus[device]; return OK; }
int cuMemPoolSetAttribute(void *pool, int which, void *value) {
    if (which != 4 || *(uint64_t *)value != UINT64_MAX) return INVALID; // RELEASE_THRESHOLD
    gpus[*(int *)pool].threshold = *(uint64_t *)value;
    return OK;
}
int cuMemPoolGetAttribute(void *pool, int which, void *value) {
    if (which != 5 && which != 7) return INVALID; // RESERVED_MEM_CURRENT, USED_MEM_CURRENT
    *(uint64_t *)value = which == 5 ? gpus[*(int *)pool].reserved : gpus[*(int *)pool].used;
    return OK;
}
int cuMemPoolTrimTo(void *pool, size_t keep) {
    fprintf(stderr, "mock: the pool is trimmed\n");
    gpus[*(int *)pool].reserved = gpus[*(int *)pool].used;
    return keep ? INVALID : OK;
}
// Waiting for a context in which something is recorded is refused, and ends the recording.
int cuCtxSynchronize(void) { return captures ? 900 : here(); }
int cuMemPoolSetAccess(void *pool, const int *map, size_t n) {
    // {location {type, id}, flags}
    return n == 1 && map[0] == 1 && map[1] == 1 - *(int *)pool && map[2] == 3 ? OK : INVALID;
}
int cuMemGetInfo_v2(size_t *free, size_t *total) {
    *total = MEMORY;
    *free = MEMORY - (pools() ? gpus[current].reserved : gpus[current].used);
    return here();
}

int cuStreamCreateWithPriority(struct stream **s, unsigned flags, int priority) {
    if (here() || flags != 1 || (priority != 0 && priority != -5)) return INVALID;
    *s = calloc(1, sizeof **s);
    (*s)->device = current;
    return OK;
}
int cuStreamDestroy_v2(struct stream *s) { free(s); return OK; }
int cuStreamSynchronize(struct stream *s) { return on(s); }
int cuStreamWaitEvent(struct stream *s, struct event *e, unsigned flags) { (void)e; return flags ? INVALID : on(s); }
int cuEventCreate(struct event **e, unsigned flags) {
    if (here() || (flags != 1 && flags != 3)) return INVALID; // BLOCKING_SYNC, DISABLE_TIMING
    *e = calloc(1, sizeof **e);
    (*e)->device = current;
    (*e)->flags = flags;
    return OK;
}
int cuEventDestroy_v2(struct event *e) { free(e); return OK; }
int cuEventRecord(struct event *e, struct stream *s) { e->at = now += 2; return e->device == s->device ? on(s) : INVALID; }
int cuEventQuery(struct event *e) { return lost[e->device] ? ILLEGAL_ADDRESS : OK; }
int cuEventSynchronize(struct event *e) { return lost[e->device] ? ILLEGAL_ADDRESS : OK; }
int cuEventElapsedTime(float *ms, struct event *from, struct event *to) {
    if (from->flags & 2 || to->flags & 2) return INVALID;
    *ms = to->at - from->at;
    return OK;
}

static int take(addr *at, size_t bytes) {
    if (here()) return here();
    if (bytes > (size_t)1 << 45) return INVALID; // beyond the address space of a GPU
    if (!bytes || gpus[current].used + bytes > MEMORY) return bytes ? NO_MEMORY : INVALID;
    if (in_pieces() && bytes > MEMORY - gpus[current].reserved) return NO_MEMORY;
    size_t *block = aligned_alloc(256, (bytes + 256 + 255) / 256 * 256);
    block[0] = bytes;
    gpus[current].used += bytes;
    if (gpus[current].reserved < gpus[current].used) gpus[current].reserved = gpus[current].used;
    *at = (addr)((char *)block + 256);
    return OK;
}
static int give(addr at) {
    size_t *block = (size_t *)((char *)at - 256);
    gpus[current].used -= block[0];
    free(block);
    return OK;
}
int cuMemAllocAsync(addr *at, size_t bytes, struct stream *s) { return on(s) ? on(s) : s->capturing || !pools() ? INVALID : take(at, bytes); }
int cuMemFreeAsync(addr at, struct stream *s) { return on(s) ? on(s) : give(at); }
int cuMemAlloc_v2(addr *at, size_t bytes) { return pools() ? INVALID : take(at, bytes); }
int cuMemFree_v2(addr at) { return here() ? here() : pools() ? INVALID : give(at); }
int cuMemHostAlloc(void **at, size_t bytes, unsigned flags) { *at = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096); return flags == 1 ? OK : INVALID; }
int cuMemFreeHost(void *at) { free(at); return OK; }
int cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) { return at && bytes && flags == 1 ? OK : INVALID; }
int cuMemHostUnregister(void *at) { return at ? OK : INVALID; }
int cuMemcpyHtoDAsync_v2(addr to, const void *from, size_t bytes, struct stream *s) { if (on(s)) return on(s); memcpy((void *)to, from, bytes); return OK; }
int cuMemcpyDtoHAsync_v2(void *to, addr from, size_t bytes, struct stream *s) { if (on(s)) return on(s); memcpy(to, (void *)from, bytes); return OK; }
int cuMemcpyDtoDAsync_v2(addr to, addr from, size_t bytes, struct stream *s) { if (on(s)) return on(s); memcpy((void *)to, (void *)from, bytes); return OK; }
int cuMemcpyPeerAsync(addr to, void *ctx_to, addr from, void *ctx_from, size_t bytes, struct stream *s) {
    if (on(s) || ctx_to == ctx_from || peers != 2) return INVALID;
    memcpy((void *)to, (void *)from, bytes);
    return OK;
}
int cuMemsetD8Async(addr at, unsigned char value, size_t bytes, struct stream *s) { if (on(s)) return on(s); memset((void *)at, value, bytes); return OK; }

int cuModuleLoadData(void **module, const void *image) { *module = strdup(image); return strncmp(image, "mock", 4) ? 200 : here(); }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    if (strcmp(name, "axpy") && strcmp(name, "fault")) return NOT_FOUND;
    *function = strdup(name);
    return module ? OK : INVALID;
}
static int shared = 48 << 10;
int cuFuncSetAttribute(void *function, int which, int value) { shared = value; return function && which == 8 ? OK : INVALID; }
// axpy(float *y, const float *x, float a, int n), or a fault.
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned bytes,
                   struct stream *s, void **args, void **extra) {
    if (on(s)) return on(s);
    if (extra || (int)bytes > shared || gx * gy * gz * bx * by * bz == 0) return INVALID;
    if (!strcmp(function, "fault")) { lost[current] = 1; return OK; }
    float *y = *(float **)args[0], *x = *(float **)args[1], a = *(float *)args[2];
    int n = *(int *)args[3];
    if (gx != 2 || gy != 3 || gz != 4 || bx != 5 || by != 6 || bz != 7) return INVALID;
    for (int i = 0; i < n; i++) y[i] += a * x[i];
    return OK;
}

int cuStreamIsCapturing(struct stream *s, int *status) { *status = s->capturing; return OK; }
int cuStreamBeginCapture_v2(struct stream *s, int mode) { s->capturing = 1; captures++; return mode == 2 ? on(s) : INVALID; }
int cuStreamEndCapture(struct stream *s, void **graph) { captures -= s->capturing; s->capturing = 0; *graph = malloc(1); return on(s); }
int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) { *exec = malloc(1); return graph && !flags ? OK : INVALID; }
int cuGraphLaunch(void *exec, struct stream *s) { return exec ? on(s) : INVALID; }
int cuGraphExecDestroy(void *exec) { free(exec); return OK; }
int cuGraphDestroy(void *graph) { free(graph); return OK; }
#endif

#if defined MOCK_cublas || defined MOCK_cublasLt || defined MOCK_cusolver
enum { OK = 0, INVALID = 7 };
struct handle { void *stream, *workspace; size_t bytes; int math, mode; };
#endif

#if defined MOCK_cublas || defined MOCK_cublasLt
// Pointer modes are 0 for the host, whose factors the crate has on its stack, and 1 for the device, whose memory is nobody's stack.
static int in_place(int mode, const void *factor) {
    char here;
    int stack = (uintptr_t)factor - (uintptr_t)&here < 1 << 13;
    return stack == !mode;
}
#endif

#ifdef MOCK_cublas
static size_t size(int type) { return type == 1 ? 8 : type == 0 ? 4 : 2; }
static float from16(uint16_t h) { // normal numbers and zero are enough here
    if (!(h & 0x7fff)) return 0;
    uint32_t bits = (uint32_t)(h & 0x8000) << 16 | (uint32_t)(((h >> 10) & 31) + 112) << 23 | (uint32_t)(h & 0x3ff) << 13;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
static double get(const void *p, int type, size_t i) {
    if (type == 1) return ((const double *)p)[i];
    if (type == 0) return ((const float *)p)[i];
    return from16(((const uint16_t *)p)[i]);
}
static int gemm(struct handle *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *A, int at, int lda, const void *B,
                int bt, int ldb, const void *beta, void *C, int ct, int ldc, int compute, int algo) {
    if (!h->stream || !h->workspace || h->math != 16 || algo != -1 || size(at) != size(bt)) return INVALID;
    if (!in_place(h->mode, alpha) || !in_place(h->mode, beta)) return INVALID;
    double a = compute == 70 ? *(double *)alpha : compute == 64 ? from16(*(uint16_t *)alpha) : *(float *)alpha;
    double b = compute == 70 ? *(double *)beta : compute == 64 ? from16(*(uint16_t *)beta) : *(float *)beta;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += get(A, at, ta ? l + (size_t)i * lda : i + (size_t)l * lda) * get(B, bt, tb ? j + (size_t)l * ldb : l + (size_t)j * ldb);
            size_t c = i + (size_t)j * ldc;
            double x = a * sum + (b ? b * get(C, ct, c) : 0);
            if (ct == 1) ((double *)C)[c] = x;
            else if (ct == 0) ((float *)C)[c] = x;
            else return INVALID;
        }
    return OK;
}
int cublasGetProperty(int which, int *value) { *value = which == 0 ? 12 : which == 1 ? 9 : 1; return OK; }
int cublasCreate_v2(struct handle **h) { fprintf(stderr, "mock: a cublas handle is made\n"); *h = calloc(1, sizeof **h); return OK; }
int cublasDestroy_v2(struct handle *h) { fprintf(stderr, "mock: a cublas handle is destroyed\n"); free(h); return OK; }
int cublasSetStream_v2(struct handle *h, void *stream) { h->stream = stream; h->workspace = 0; return OK; }
int cublasSetWorkspace_v2(struct handle *h, void *at, size_t bytes) { h->workspace = at; h->bytes = bytes; return bytes == 32 << 20 ? OK : INVALID; }
int cublasSetMathMode(struct handle *h, int mode) { h->math = mode; return OK; }
int cublasSetPointerMode_v2(struct handle *h, int mode) { h->mode = mode; return mode == 0 || mode == 1 ? OK : INVALID; }
int cublasGemmEx(struct handle *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *A, int at, int lda, const void *B,
                 int bt, int ldb, const void *beta, void *C, int ct, int ldc, int compute, int algo) {
    return gemm(h, ta, tb, m, n, k, alpha, A, at, lda, B, bt, ldb, beta, C, ct, ldc, compute, algo);
}
int cublasGemmStridedBatchedEx(struct handle *h, int ta, int tb, int m, int n, int k, const void *alpha, const char *A, int at, int lda,
                               long long sa, const char *B, int bt, int ldb, long long sb, const void *beta, char *C, int ct, int ldc,
                               long long sc, int count, int compute, int algo) {
    for (long long i = 0; i < count; i++)
        if (gemm(h, ta, tb, m, n, k, alpha, A + i * sa * size(at), at, lda, B + i * sb * size(bt), bt, ldb, beta, C + i * sc * size(ct), ct, ldc, compute, algo)) return INVALID;
    return OK;
}
int cublasGemmBatchedEx(struct handle *h, int ta, int tb, int m, int n, int k, const void *alpha, void **A, int at, int lda, void **B, int bt,
                        int ldb, const void *beta, void **C, int ct, int ldc, int count, int compute, int algo) {
    for (int i = 0; i < count; i++)
        if (gemm(h, ta, tb, m, n, k, alpha, A[i], at, lda, B[i], bt, ldb, beta, C[i], ct, ldc, compute, algo)) return INVALID;
    return OK;
}
#define ROUTINES(NAME_TRSM, NAME_SYRK, T)                                                                                                  \
    int NAME_TRSM(struct handle *h, int side, int uplo, int op, int diag, int m, int n, const T *alpha, const T *L, int ldl, T *B, int ldb) { \
        if (!h->stream || h->mode || side != 1 || uplo != 0 || op != 1 || diag != 0 || *alpha != 1) return INVALID;                        \
        for (int i = 0; i < m; i++)                                                                                                        \
            for (int j = 0; j < n; j++) {                                                                                                  \
                T x = B[i + (size_t)j * ldb];                                                                                              \
                for (int p = 0; p < j; p++) x -= B[i + (size_t)p * ldb] * L[j + (size_t)p * ldl];                                          \
                B[i + (size_t)j * ldb] = x / L[j + (size_t)j * ldl];                                                                       \
            }                                                                                                                              \
        return OK;                                                                                                                         \
    }                                                                                                                                      \
    int NAME_SYRK(struct handle *h, int uplo, int op, int n, int k, const T *alpha, const T *A, int lda, const T *beta, T *C, int ldc) {    \
        if (!h->stream || h->mode || uplo != 0 || op != 0) return INVALID;                                                                 \
        for (int j = 0; j < n; j++)                                                                                                        \
            for (int i = j; i < n; i++) {                                                                                                  \
                T sum = 0;                                                                                                                 \
                for (int l = 0; l < k; l++) sum += A[i + (size_t)l * lda] * A[j + (size_t)l * lda];                                        \
                C[i + (size_t)j * ldc] = *alpha * sum + *beta * C[i + (size_t)j * ldc];                                                    \
            }                                                                                                                              \
        return OK;                                                                                                                         \
    }
ROUTINES(cublasStrsm_v2, cublasSsyrk_v2, float)
ROUTINES(cublasDtrsm_v2, cublasDsyrk_v2, double)
#endif

#ifdef MOCK_cublasLt
struct layout { int type; uint64_t rows, columns; int64_t ld; };
struct product { int compute, scale, transa, mode; };
struct choice { uint64_t algo[8]; size_t workspace; int state; float waves; int reserved[4]; };
static int asked[2];

size_t cublasLtGetVersion(void) { return 120901; }
int cublasLtCreate(void **h) { *h = malloc(1); return OK; }
int cublasLtDestroy(void *h) { free(h); return OK; }
int cublasLtMatmulDescCreate(struct product **p, int compute, int scale) { *p = calloc(1, sizeof **p); (*p)->compute = compute; (*p)->scale = scale; return OK; }
int cublasLtMatmulDescDestroy(struct product *p) { free(p); return OK; }
int cublasLtMatmulDescSetAttribute(struct product *p, int which, const void *value, size_t bytes) {
    if (bytes != 4 || (which != 2 && which != 3)) return INVALID; // POINTER_MODE, TRANSA
    *(which == 2 ? &p->mode : &p->transa) = *(const int *)value;
    return p->mode == 0 || p->mode == 1 ? OK : INVALID;
}
int cublasLtMatrixLayoutCreate(struct layout **l, int type, uint64_t rows, uint64_t columns, int64_t ld) {
    *l = malloc(sizeof **l);
    **l = (struct layout){type, rows, columns, ld};
    return OK;
}
int cublasLtMatrixLayoutDestroy(struct layout *l) { free(l); return OK; }
int cublasLtMatmulPreferenceCreate(void **p) { *p = malloc(1); return OK; }
int cublasLtMatmulPreferenceDestroy(void *p) { free(p); return OK; }
int cublasLtMatmulPreferenceSetAttribute(void *p, int which, const void *value, size_t bytes) {
    return p && which == 1 && bytes == 8 && *(const uint64_t *)value == 32 << 20 ? OK : INVALID;
}
int cublasLtMatmulAlgoGetHeuristic(void *h, struct product *p, struct layout *a, struct layout *b, struct layout *c, struct layout *d, void *preference,
                                   int wanted, struct choice *choice, int *found) {
    if (!h || !p || !a || !b || !c || !d || !preference || wanted != 1) return INVALID;
    memset(choice, 0, sizeof *choice);
    choice->algo[0] = 77;
    if (getenv("MOCK_NO_HEURISTIC")) { *found = 0; return atoi(getenv("MOCK_NO_HEURISTIC")); }
    *found = ++asked[p->mode] == 1; // once per shape and mode
    return OK;
}
static float from8(uint8_t c) { // normal numbers and zero are enough here
    if (!(c & 0x7f)) return 0;
    float x = 8 + (c & 7);
    for (int e = (c >> 3 & 15) - 10; e > 0; e--) x *= 2;
    for (int e = (c >> 3 & 15) - 10; e < 0; e++) x /= 2;
    return c & 0x80 ? -x : x;
}
int cublasLtMatmul(void *h, struct product *p, const float *alpha, const uint8_t *A, struct layout *a, const uint8_t *B, struct layout *b,
                   const float *beta, const float *C, struct layout *c, float *D, struct layout *d, const uint64_t *algo, void *workspace,
                   size_t bytes, void *stream) {
    if (!h || p->compute != 68 || p->scale != 0 || p->transa != 1 || algo[0] != 77 || !workspace || bytes != 32 << 20 || !stream) return INVALID;
    if (!in_place(p->mode, alpha) || !in_place(p->mode, beta)) return INVALID;
    if (a->type != 28 || b->type != 28 || c->type != 0 || a->rows != b->rows || a->columns != c->rows || b->columns != c->columns || C != D || c != d) return INVALID;
    for (uint64_t j = 0; j < c->columns; j++)
        for (uint64_t i = 0; i < c->rows; i++) {
            float sum = 0;
            for (uint64_t l = 0; l < a->rows; l++) sum += from8(A[l + i * a->ld]) * from8(B[l + j * b->ld]);
            D[i + j * d->ld] = *alpha * sum + *beta * C[i + j * c->ld];
        }
    return OK;
}
#endif

#ifdef MOCK_cusolver
#include <math.h>
int cusolverGetVersion(int *version) { *version = 11705; return OK; }
int cusolverDnCreate(struct handle **h) { *h = calloc(1, sizeof **h); return OK; }
int cusolverDnDestroy(struct handle *h) { free(h); return OK; }
int cusolverDnSetStream(struct handle *h, void *stream) { h->stream = stream; return OK; }
#define MOST_BY_INTS 46340 // n * n fits an int
#define POTRF(NAME, NAME_SIZE, T)                                                                                           \
    int NAME_SIZE(struct handle *h, int uplo, int n, T *A, int lda, int *entries) {                                        \
        *entries = 10 * n;                                                                                                  \
        return h->stream && uplo == 0 && !A && lda == n && n <= MOST_BY_INTS ? OK : INVALID;                                \
    }                                                                                                                       \
    int NAME(struct handle *h, int uplo, int n, T *A, int lda, T *work, int entries, int *info) {                          \
        if (!h->stream || uplo != 0 || entries != 10 * n || !work || n > MOST_BY_INTS) return INVALID;                      \
        *info = 0;                                                                                                          \
        for (int j = 0; j < n; j++)                                                                                         \
            for (int i = j; i < n; i++) {                                                                                   \
                T x = A[i + (size_t)j * lda];                                                                               \
                for (int p = 0; p < j; p++) x -= A[i + (size_t)p * lda] * A[j + (size_t)p * lda];                           \
                if (i == j && !(x > 0)) { *info = j + 1; return OK; }                                                       \
                A[i + (size_t)j * lda] = i == j ? sqrt(x) : x / A[j + (size_t)j * lda];                                     \
            }                                                                                                               \
        return OK;                                                                                                          \
    }
POTRF(cusolverDnSpotrf, cusolverDnSpotrf_bufferSize, float)
POTRF(cusolverDnDpotrf, cusolverDnDpotrf_bufferSize, double)

// The 64-bit calls, for what the others cannot count. Nobody has the matrix: its first pivot is looked at, and all of the working space is
// written, on the host only where MOCK_HOST_SPACE says how much there is.
static size_t on_host(void) { const char *bytes = getenv("MOCK_HOST_SPACE"); return bytes ? strtoull(bytes, 0, 10) : 0; }
static int alive;
int cusolverDnCreateParams(int **params) { *params = malloc(sizeof **params); **params = 17; alive++; return OK; }
int cusolverDnDestroyParams(int *params) { free(params); if (--alive) fprintf(stderr, "mock: params are left\n"); return OK; }
int cusolverDnXpotrf_bufferSize(struct handle *h, const int *params, int uplo, int64_t n, int type, const void *A, int64_t lda, int compute,
                                size_t *device, size_t *host) {
    (void)A;
    if (!h->stream || *params != 17 || uplo != 0 || n <= MOST_BY_INTS || lda < n || (type != 0 && type != 1) || compute != type) return INVALID;
    *device = n * (type == 1 ? 8 : 4) + 3;
    *host = on_host();
    return OK;
}
int cusolverDnXpotrf(struct handle *h, const int *params, int uplo, int64_t n, int type, void *A, int64_t lda, int compute, void *device,
                     size_t bytes, void *host, size_t host_bytes, int *info) {
    size_t needed, needed_on_host;
    if (cusolverDnXpotrf_bufferSize(h, params, uplo, n, type, A, lda, compute, &needed, &needed_on_host)) return INVALID;
    if (!device || bytes != needed || host_bytes != needed_on_host || (host_bytes && !host)) return INVALID;
    memset(device, 1, bytes);
    memset(host, 1, host_bytes);
    double pivot = type == 1 ? *(double *)A : *(float *)A;
    if (type == 1) *(double *)A = sqrt(pivot);
    else *(float *)A = sqrt(pivot);
    *info = pivot > 0 ? 0 : 1;
    return OK;
}
#endif

#if defined MOCK_nvToolsExt || defined MOCK_nvtx3interop
static int depth;
int nvtxRangePushA(const char *name) { fprintf(stderr, "mock: range %s\n", name); return depth++; }
int nvtxRangePop(void) { fprintf(stderr, "mock: range ends\n"); return --depth; }
#endif

#ifdef MOCK_nvidia_ml
// Clock and power of the GPU at 0000:3b:00.0; the other one tells its clock only.
static int started;
int nvmlInit_v2(void) { started = !getenv("MOCK_NVML_BROKEN"); return started ? 0 : 9; } // DRIVER_NOT_LOADED
int nvmlSystemGetNVMLVersion(char *text, unsigned length) { snprintf(text, length, "12.575.51"); return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) { snprintf(text, length, "575.51.03"); return 0; }
const char *nvmlErrorString(int e) { return e == 6 ? "Not Found" : "mock error"; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) {
    if (!started || strncmp(bus, "0000:3", 6)) return started ? 6 : 1; // NOT_FOUND, UNINITIALIZED
    *device = (void *)(uintptr_t)(bus[6] == 'b' ? 2 : 1);
    return 0;
}
int nvmlDeviceGetClockInfo(void *device, int which, unsigned *mhz) { *mhz = 1980; return device && which == 1 ? 0 : 2; } // SM
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) { *milliwatts = 612500; return (uintptr_t)device == 2 ? 0 : 3; } // NOT_SUPPORTED
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
    *millijoules = 7250;
    return (uintptr_t)device == 2 ? 0 : 3;
}
#endif
