// Conversions of one tile from one format to another.
//
// A scale is chosen from what is in device memory: the tile's measure (norms.cu). It puts the largest stored number `headroom` powers of
// two above [1, 2).

extern "C" __global__ void zellige_narrow(u32 m, u32 n, const double *__restrict__ a, u32 lda, float *__restrict__ out,
                                          u32 ldo)
{
    FOR_ENTRIES(m, n) out[at(i, j, ldo)] = (float)a[at(i, j, lda)];
}

extern "C" __global__ void zellige_widen(u32 m, u32 n, const float *__restrict__ a, u32 lda, double *__restrict__ out,
                                         u32 ldo)
{
    FOR_ENTRIES(m, n) out[at(i, j, ldo)] = (double)a[at(i, j, lda)];
}

// out = round(a 2^-scale); the scale goes to *scale.
#define PACK(name, type, from_f32, more)                                                                     \
    extern "C" __global__ void name(u32 m, u32 n, const float *__restrict__ a, u32 lda,                      \
                                    const Measure *measure, int headroom, type *__restrict__ out, u32 ldo,   \
                                    int *scale)                                                              \
    {                                                                                                        \
        int chosen = chosen_scale(measure, headroom + more(measure));                                        \
        Factors f = power_of_two(-chosen);                                                                   \
        FOR_ENTRIES(m, n) out[at(i, j, ldo)] = from_f32(a[at(i, j, lda)] * f.first * f.second);              \
        if (FIRST_THREAD())                                                                                  \
            *scale = chosen;                                                                                 \
    }
__device__ inline int no_more(const Measure *)
{
    return 0;
}
// The largest e4m3 is 1.75 2^8: one power of two more where the largest entry is not above 1.75 times one.
__device__ inline int up_to_448(const Measure *measure)
{
    u64 fraction = (u64)__double_as_longlong(measure->max) & 0xfffffffffffffull;
    return fraction <= (3ull << 50) ? 1 : 0;
}
PACK(zellige_pack_f16, u16, f16_from_f32, no_more)
PACK(zellige_pack_bf16, u16, bf16_from_f32, no_more)
PACK(zellige_pack_e4m3, u8, e4m3_from_f32, up_to_448)

// out = a 2^scale, exactly unless that leaves the range of f32.
#define UNPACK(name, type, to_f32)                                                                           \
    extern "C" __global__ void name(u32 m, u32 n, const type *__restrict__ a, u32 lda, const int *scale,     \
                                    float *__restrict__ out, u32 ldo)                                        \
    {                                                                                                        \
        Factors f = power_of_two(*scale);                                                                    \
        FOR_ENTRIES(m, n) out[at(i, j, ldo)] = to_f32(a[at(i, j, lda)]) * f.first * f.second;                \
    }
UNPACK(zellige_unpack_f16, u16, f32_from_f16)
UNPACK(zellige_unpack_bf16, u16, f32_from_bf16)
UNPACK(zellige_unpack_e4m3, u8, f32_from_e4m3)

// hi = f16(x), lo = f16(x - hi) with x = a 2^-scale; the difference is exact.
extern "C" __global__ void zellige_split(u32 m, u32 n, const float *__restrict__ a, u32 lda,
                                         const Measure *measure, int headroom, u16 *__restrict__ hi, u16 *__restrict__ lo, u32 ldo, int *scale)
{
    int chosen = chosen_scale(measure, headroom);
    Factors f = power_of_two(-chosen);
    FOR_ENTRIES(m, n)
    {
        float x = a[at(i, j, lda)] * f.first * f.second;
        u16 h = f16_from_f32(x);
        hi[at(i, j, ldo)] = h;
        lo[at(i, j, ldo)] = f16_from_f32(x - f32_from_f16(h));
    }
    if (FIRST_THREAD())
        *scale = chosen;
}

// out = (hi + lo) 2^scale, rounded once: the sum may need more than 24 bits.
extern "C" __global__ void zellige_join(u32 m, u32 n, const u16 *__restrict__ hi, const u16 *__restrict__ lo, u32 lda,
                                        const int *scale, float *__restrict__ out, u32 ldo)
{
    Factors f = power_of_two(*scale);
    FOR_ENTRIES(m, n)
    {
        double sum = (double)f32_from_f16(hi[at(i, j, lda)]) + (double)f32_from_f16(lo[at(i, j, lda)]);
        out[at(i, j, ldo)] = (float)(sum * (double)f.first * (double)f.second);
    }
}

// One operand of an X3 product as one matrix of three times the inner length, so that one product does the work of three:
// [hi|hi|lo] or, `second`, [hi|lo|hi], the parts `third` entries apart (inner length along the columns: third = cols ldo; along
// the rows: third = rows). [hi|hi|lo] [hi|lo|hi]^T = hi hi^T + hi lo^T + lo hi^T. The order of these sums is the product's, not the
// CPU's, which adds the small ones first.
extern "C" __global__ void zellige_triple(u32 m, u32 n, const u16 *__restrict__ hi, const u16 *__restrict__ lo, u32 lda,
                                          u32 second, u64 third, u16 *__restrict__ out, u32 ldo)
{
    FOR_ENTRIES(m, n)
    {
        u16 h = hi[at(i, j, lda)], l = lo[at(i, j, lda)];
        u64 to = at(i, j, ldo);
        out[to] = h;
        out[to + third] = second ? l : h;
        out[to + 2 * third] = second ? h : l;
    }
}
