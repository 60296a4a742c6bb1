// Products of small tiles, one block for each: where a launch would cost more than the work.
//
// C = beta C + alpha A op(B), C of m x n with m, n <= 64, any k. Each entry is one chain of fused multiply-adds, k ascending from zero,
// s = fma(a, b, s), then C = fma(alpha, s, beta C); with beta = 0, C = alpha s and is not read. `tiles`: for each of `count` products
// the addresses of A, B, C.

#define SMALL 64
#define SMALL_THREADS 256
#define STEP 16
#define EACH 4 // a thread computes EACH x EACH entries: rows r, r + 16, .., columns c, c + 16, ..

__device__ inline float as_f32(float x)
{
    return x;
}
__device__ inline float as_f32(u16 h)
{
    return f32_from_f16(h);
}

template <typename T>
__device__ inline void small_product(u32 m, u32 n, u32 k, float alpha, const T *a, u32 lda, const T *b, u32 ldb, u32 transposed,
                                     float beta, float *c, u32 ldc, float (*wide_a)[SMALL], float (*wide_b)[SMALL])
{
    u32 t = threadIdx.x, r = t % 16, s = t / 16;
    float sums[EACH][EACH];
    for (u32 x = 0; x < EACH; x++)
        for (u32 y = 0; y < EACH; y++)
            sums[x][y] = 0.0f;
    for (u32 l = 0; l < k; l += STEP) {
        u32 here = k - l < STEP ? k - l : STEP;
        for (u32 e = t; e < STEP * SMALL; e += SMALL_THREADS) {
            u32 q = e / SMALL, i = e % SMALL;
            wide_a[q][i] = q < here && i < m ? as_f32(a[at(i, l + q, lda)]) : 0.0f;
            if (transposed)
                wide_b[q][i] = q < here && i < n ? as_f32(b[at(i, l + q, ldb)]) : 0.0f;
            else // neighbouring threads along a column of B
                wide_b[e % STEP][e / STEP] =
                    e % STEP < here && e / STEP < n ? as_f32(b[at(l + e % STEP, e / STEP, ldb)]) : 0.0f;
        }
        __syncthreads();
        for (u32 q = 0; q < here; q++)
            for (u32 x = 0; x < EACH; x++)
                for (u32 y = 0; y < EACH; y++)
                    sums[x][y] = fmaf(wide_a[q][r + 16 * x], wide_b[q][s + 16 * y], sums[x][y]);
        __syncthreads();
    }
    for (u32 x = 0; x < EACH; x++)
        for (u32 y = 0; y < EACH; y++) {
            u32 i = r + 16 * x, j = s + 16 * y;
            if (i >= m || j >= n)
                continue;
            float *to = c + at(i, j, ldc);
            *to = beta == 0.0f ? alpha * sums[x][y] : fmaf(alpha, sums[x][y], beta * *to);
        }
}

#define BATCHED(name, type)                                                                                  \
    extern "C" __global__ void __launch_bounds__(SMALL_THREADS)                                              \
        name(u32 m, u32 n, u32 k, float alpha, u32 lda, u32 ldb, u32 transposed, float beta, u32 ldc,        \
             u32 count, const u64 *tiles)                                                                    \
    {                                                                                                        \
        __shared__ float wide_a[STEP][SMALL], wide_b[STEP][SMALL];                                           \
        if (blockIdx.x >= count)                                                                             \
            return;                                                                                          \
        const u64 *at = tiles + 3 * (u64)blockIdx.x;                                                         \
        small_product(m, n, k, alpha, (const type *)at[0], lda, (const type *)at[1], ldb, transposed, beta,  \
                      (float *)at[2], ldc, wide_a, wide_b);                                                  \
    }
BATCHED(zellige_small_products_f32, float)
BATCHED(zellige_small_products_f16, u16)
