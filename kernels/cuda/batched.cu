// Products of small tiles, one block for each: where a launch would cost more than the work.
//
// C = beta C + alpha 2^(a + b) A op(B), C of m x n with m, n <= 64, any k. Each entry is one chain of fused multiply-adds, k ascending from
// zero, s = fma(a, b, s), then s = s 2^(a + b), rounded only where that is subnormal or infinite, and C = fma(alpha, s, beta C); with beta = 0,
// C = alpha s and is not read. Operands in f32 have no scales. The operands of up to 32 products are arguments, so that no table has to be brought to
// the device; those from `count` on are not looked at.

#define SMALL 64
#define SMALL_THREADS 256
#define STEP 16
#define EACH 4 // a thread computes EACH x EACH entries: rows r, r + 16, .., columns c, c + 16, ..

struct F16 {
    u16 bits;
};
struct BF16 {
    u16 bits;
};
__device__ inline float as_f32(float x)
{
    return x;
}
__device__ inline float as_f32(F16 h)
{
    return f32_from_f16(h.bits);
}
__device__ inline float as_f32(BF16 h)
{
    return f32_from_bf16(h.bits);
}

// One product, as all threads of its block see it.
struct Product {
    const void *a, *b;
    float *c;
    int scale;
};

template <typename T>
__device__ inline void small_product(u32 m, u32 n, u32 k, float alpha, u32 lda, u32 ldb, u32 transposed, float beta, u32 ldc,
                                     const Product &product, float (*wide_a)[SMALL], float (*wide_b)[SMALL])
{
    const T *a = (const T *)product.a, *b = (const T *)product.b;
    Factors scale = power_of_two(product.scale);
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
            float *to = product.c + at(i, j, ldc), sum = sums[x][y] * scale.first * scale.second;
            *to = beta == 0.0f ? alpha * sum : fmaf(alpha, sum, beta * *to);
        }
}

// The operands of each product as arguments, and how a block finds its own.
#define FOUR(X, p) X(p, 0) X(p, 1) X(p, 2) X(p, 3)
#define EVERY(X) FOUR(X, 0) FOUR(X, 1) FOUR(X, 2) FOUR(X, 3) FOUR(X, 4) FOUR(X, 5) FOUR(X, 6) FOUR(X, 7)
#define PLAIN(p, q) , const void *a##p##q, const void *b##p##q, float *c##p##q
#define SCALED(p, q) PLAIN(p, q), const int *scale_a##p##q, const int *scale_b##p##q
#define FIND_PLAIN(p, q)                                                                                     \
    case 4 * p + q:                                                                                          \
        product = Product{a##p##q, b##p##q, c##p##q, 0};                                                     \
        break;
#define FIND_SCALED(p, q)                                                                                    \
    case 4 * p + q:                                                                                          \
        product = Product{a##p##q, b##p##q, c##p##q, exponent(scale_a##p##q) + exponent(scale_b##p##q)};     \
        break;

__device__ inline int exponent(const int *scale)
{
    return clamp(*scale, -100000, 100000);
}

#define BATCHED(name, type, OPERANDS, FIND)                                                                  \
    extern "C" __global__ void __launch_bounds__(SMALL_THREADS)                                              \
        name(u32 m, u32 n, u32 k, float alpha, u32 lda, u32 ldb, u32 transposed, float beta, u32 ldc,        \
             u32 count EVERY(OPERANDS))                                                                      \
    {                                                                                                        \
        __shared__ float wide_a[STEP][SMALL], wide_b[STEP][SMALL];                                           \
        __shared__ Product product;                                                                          \
        if (blockIdx.x >= count)                                                                             \
            return;                                                                                          \
        if (threadIdx.x == 0)                                                                                \
            switch (blockIdx.x) {                                                                            \
                EVERY(FIND)                                                                                  \
            }                                                                                                \
        __syncthreads();                                                                                     \
        small_product<type>(m, n, k, alpha, lda, ldb, transposed, beta, ldc, product, wide_a, wide_b);       \
    }
BATCHED(zellige_small_products_f32, float, PLAIN, FIND_PLAIN)
BATCHED(zellige_small_products_f16, F16, SCALED, FIND_SCALED)
BATCHED(zellige_small_products_bf16, BF16, SCALED, FIND_SCALED)
