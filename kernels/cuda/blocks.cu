// Blocks of matrices: copies, constants, triangles, transposed ones.

#define COPY(name, type)                                                                                     \
    extern "C" __global__ void name(u32 m, u32 n, const type *__restrict__ a, u32 lda, type *__restrict__ out, \
                                    u32 ldo)                                                                 \
    {                                                                                                        \
        FOR_ENTRIES(m, n) out[at(i, j, ldo)] = a[at(i, j, lda)];                                             \
    }
COPY(zellige_copy_8, u8)
COPY(zellige_copy_16, u16)
COPY(zellige_copy_32, u32)
COPY(zellige_copy_64, u64)

#define TRIANGLES(fill, zero_upper, mirror, type)                                                            \
    extern "C" __global__ void fill(u32 m, u32 n, type value, type *__restrict__ out, u32 ldo)               \
    {                                                                                                        \
        FOR_ENTRIES(m, n) out[at(i, j, ldo)] = value;                                                        \
    }                                                                                                        \
    /* Zero above the diagonal. A factorisation leaves there what was there, as the CPU's does. */           \
    extern "C" __global__ void zero_upper(u32 n, type *__restrict__ a, u32 lda)                              \
    {                                                                                                        \
        FOR_ENTRIES(n, n) if (i < j) a[at(i, j, lda)] = 0;                                                   \
    }                                                                                                        \
    /* The lower triangle's mirror image above the diagonal. */                                              \
    extern "C" __global__ void mirror(u32 n, type *a, u32 lda)                                               \
    {                                                                                                        \
        FOR_ENTRIES(n, n) if (i < j) a[at(i, j, lda)] = a[at(j, i, lda)];                                    \
    }
TRIANGLES(zellige_fill_f32, zellige_zero_upper_f32, zellige_mirror_f32, float)
TRIANGLES(zellige_fill_f64, zellige_zero_upper_f64, zellige_mirror_f64, double)

// out = A^T, A of m x n, out of rows x cols with rows >= n, cols >= m: zeros beyond A. Squares of TILE_ROWS go through shared memory, so
// that neighbouring threads read along columns of A and write along columns of out.
extern "C" __global__ void zellige_transpose_8(u32 m, u32 n, const u8 *__restrict__ a, u32 lda, u32 rows, u32 cols,
                                               u8 *__restrict__ out, u32 ldo)
{
    // Columns of A, 17 words apart: neighbouring threads that read along a row meet no bank twice.
    __shared__ u8 square[TILE_ROWS][TILE_ROWS + 4];
    u32 t = threadIdx.x;
    for (u32 i0 = blockIdx.x * TILE_ROWS; i0 < cols; i0 += TILE_ROWS * gridDim.x)
        for (u32 j0 = blockIdx.y * TILE_ROWS; j0 < rows; j0 += TILE_ROWS * gridDim.y) {
            for (u32 s = threadIdx.y; s < TILE_ROWS; s += TILE_COLS)
                square[s][t] = i0 + t < m && j0 + s < n ? a[at(i0 + t, j0 + s, lda)] : (u8)0;
            __syncthreads();
            for (u32 s = threadIdx.y; s < TILE_ROWS; s += TILE_COLS)
                if (j0 + t < rows && i0 + s < cols)
                    out[at(j0 + t, i0 + s, ldo)] = square[t][s];
            __syncthreads();
        }
}

// The inverses of the diagonal blocks of INVERTED columns of a lower triangle, zeros above their diagonals: a block of threads each, a thread a
// column of the inverse, by forward substitution.
#define INVERTED 64
extern "C" __global__ void zellige_invert_blocks(u32 n, const float *__restrict__ l, u32 ldl, float *__restrict__ out, u32 ldo)
{
    // Rows, a word longer than they need be: threads that read along a column meet no bank twice.
    __shared__ float block[INVERTED][INVERTED + 1];
    __shared__ float inverse[INVERTED][INVERTED + 1];
    u32 from = blockIdx.x * INVERTED, width = n - from < INVERTED ? n - from : INVERTED, t = threadIdx.x;
    for (u32 j = 0; j < width; j++)
        if (t < width)
            block[t][j] = l[at(from + t, from + j, ldl)];
    __syncthreads();
    for (u32 i = 0; t < width && i < width; i++) {
        float sum = i == t ? 1.0f : 0.0f;
        for (u32 k = 0; k < i; k++)
            sum -= block[i][k] * inverse[k][t];
        inverse[i][t] = i < t ? 0.0f : sum / block[i][i];
    }
    __syncthreads();
    for (u32 j = 0; j < width; j++)
        if (t < width)
            out[at(from + t, from + j, ldo)] = inverse[t][j];
}
