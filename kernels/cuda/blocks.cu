// Blocks of matrices: copies, constants, triangles.

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
