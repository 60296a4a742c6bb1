// Measures of a tile: largest magnitude, Frobenius norm, the scale that follows.
//
// The order of the additions is fixed by the shape alone. Block b of NORM_BLOCKS (or as many as there are columns) takes the columns b,
// b + blocks, ..; in each, thread t of T the rows t, t + T, ..: each thread adds its squares one after the other, then threads are added
// in pairs t, t + T / 2; t, t + T / 4; .. 1, and blocks likewise. T is the power of two, 32 to 256, that leaves eight rows to a thread
// where it can. The CPU has another order (32 partial sums).
// Relative error of the norm: at most (ceil(m / T) ceil(n / 128) + 16) 2^-53 for f32, whose squares are exact, and 3 2^-53 more for f64.

#define NORM_THREADS 256 // at most
#define NORM_BLOCKS 128
// Numbers that a thread loads before it adds them: those of a column, where threads have eight rows each. What is beyond the column adds 0.
#define LOADS 8

struct Partial {
    u64 max;    // magnitude as the bits of an f64: those of a NaN are above those of any number
    double sum; // of squares
};

// Adds up what the threads of a block hold; the result is thread 0's. All threads of the block, a power of two, call it.
__device__ inline Partial over_threads(Partial mine, Partial *shared)
{
    u32 t = threadIdx.x;
    shared[t] = mine;
    __syncthreads();
    for (u32 width = blockDim.x / 2; width > 0; width /= 2) {
        if (t < width) {
            Partial other = shared[t + width];
            shared[t].max = shared[t].max < other.max ? other.max : shared[t].max;
            shared[t].sum += other.sum;
        }
        __syncthreads();
    }
    return shared[0];
}

// Numbers as f64, times two factors.
template <typename T>
__device__ inline Partial over_entries(u32 m, u32 n, const T *a, u32 lda, double first, double second)
{
    Partial p = {0, 0.0};
    for (u32 j = blockIdx.x; j < n; j += gridDim.x)
        for (u32 i = threadIdx.x; i < m; i += LOADS * blockDim.x) {
            // Loads first: one that waits for the sum before it would take as long as the way to memory and back.
            T loaded[LOADS];
#pragma unroll
            for (u32 s = 0; s < LOADS; s++) {
                u32 row = i + s * blockDim.x;
                loaded[s] = row < m ? a[at(row, j, lda)] : (T)0;
            }
#pragma unroll
            for (u32 s = 0; s < LOADS; s++) {
                double x = (double)loaded[s];
                u64 magnitude = (u64)__double_as_longlong(x) & 0x7fffffffffffffffull;
                p.max = p.max < magnitude ? magnitude : p.max;
                x = x * first * second;
                p.sum += x * x;
            }
        }
    return p;
}

// Largest magnitude and sum of squares of the columns of each block.
extern "C" __global__ void zellige_measure_f32(u32 m, u32 n, const float *__restrict__ a, u32 lda, Partial *partials)
{
    __shared__ Partial shared[NORM_THREADS];
    Partial p = over_threads(over_entries(m, n, a, lda, 1.0, 1.0), shared);
    if (threadIdx.x == 0)
        partials[blockIdx.x] = p;
}

// Largest magnitude alone: squares of f64 need a scale first.
extern "C" __global__ void zellige_max_f64(u32 m, u32 n, const double *__restrict__ a, u32 lda, Partial *partials)
{
    __shared__ Partial shared[NORM_THREADS];
    Partial p = over_threads(over_entries(m, n, a, lda, 0.0, 0.0), shared);
    if (threadIdx.x == 0) {
        p.sum = 0.0;
        partials[blockIdx.x] = p;
    }
}

// Squares in units of 2^measure->exponent.
extern "C" __global__ void zellige_squares_f64(u32 m, u32 n, const double *__restrict__ a, u32 lda,
                                               const Measure *measure, Partial *partials)
{
    __shared__ Partial shared[NORM_THREADS];
    int exponent = measure->exponent, half = -exponent / 2;
    Partial p = over_entries(m, n, a, lda, exp2_f64(half), exp2_f64(-exponent - half));
    p = over_threads(p, shared);
    if (threadIdx.x == 0)
        partials[blockIdx.x] = p;
}

// Adds up what `blocks` blocks left; one block of at least as many threads. `scaled`: squares are in units of 2^exponent.
extern "C" __global__ void zellige_measured(u32 blocks, const Partial *partials, u32 scaled, Measure *measure)
{
    __shared__ Partial shared[NORM_BLOCKS];
    Partial none = {0, 0.0};
    Partial p = over_threads(threadIdx.x < blocks ? partials[threadIdx.x] : none, shared);
    if (threadIdx.x != 0)
        return;
    double max = __longlong_as_double((long long)p.max);
    int exponent = scale_exponent(max);
    int unit = scaled ? exponent : 0, half = unit / 2;
    double norm = sqrt(p.sum) * exp2_f64(half) * exp2_f64(unit - half);
    bool plain = p.max == 0 || p.max >= 0x7ff0000000000000ull;
    measure->norm = scaled && plain ? max : norm;
    measure->max = max;
    measure->exponent = exponent;
    measure->raise = max > 32768.0 ? exponent : 0;
}
