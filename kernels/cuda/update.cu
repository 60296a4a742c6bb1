// What stands around tensor-core products whose scales are known on the device only: sums with C, and C in 16 bits (HP2, HP3).
//
// A product P of stored numbers comes with the scales a, b of its operands: its value is P 2^(a + b).

__device__ inline int exponent_sum(int a, int b)
{
    return clamp(a, -100000, 100000) + clamp(b, -100000, 100000);
}

// {sign 2^(a + b), 1} in f32: alpha and beta of C = C + sign 2^(a + b) A op(B) as one product of the library. Exact where f32 has the
// power, subnormal or not; 0 below. Above it is infinite, as results mostly are then: tiles whose scales were chosen for them have values
// of 2^a and of 2^b at least. The CPU's functions keep what is finite all the same, and C where P is 0, as zellige_accumulate does.
extern "C" __global__ void zellige_factors(float sign, const int *scale_a, const int *scale_b, float *factors)
{
    Factors f = power_of_two(exponent_sum(*scale_a, *scale_b));
    if (FIRST_THREAD()) {
        factors[0] = sign * (f.first * f.second);
        factors[1] = 1.0f;
    }
}

// C = C + sign P 2^(a + b), in f32: HP1, BF1, X3, 8-bit products.
extern "C" __global__ void zellige_accumulate(u32 m, u32 n, const float *__restrict__ p, u32 ldp, float sign,
                                              const int *scale_a, const int *scale_b, float *__restrict__ c, u32 ldc)
{
    Factors f = power_of_two(exponent_sum(*scale_a, *scale_b));
    FOR_ENTRIES(m, n) c[at(i, j, ldc)] += sign * (p[at(i, j, ldp)] * f.first * f.second);
}

// P = C + sign P 2^(a + b - c) in units of C's scale, C in f16, P in f32: the sum of HP2, not rounded yet.
extern "C" __global__ void zellige_sum_f32(u32 m, u32 n, float *__restrict__ p, u32 ldp, float sign, const int *scale_a,
                                           const int *scale_b, const u16 *__restrict__ c, u32 ldc, const int *scale_c)
{
    Factors f = power_of_two(exponent_sum(*scale_a, *scale_b) - clamp(*scale_c, -100000, 100000));
    FOR_ENTRIES(m, n)
    {
        float old = f32_from_f16(c[at(i, j, ldc)]);
        p[at(i, j, ldp)] = old + sign * (p[at(i, j, ldp)] * f.first * f.second);
    }
}

// S = C + sign P 2^(a + b - c), as zellige_sum_f32, with P in f16: the sum of HP3.
extern "C" __global__ void zellige_sum_f16(u32 m, u32 n, const u16 *__restrict__ p, u32 ldp, float sign, const int *scale_a,
                                           const int *scale_b, const u16 *__restrict__ c, u32 ldc, const int *scale_c,
                                           float *__restrict__ s, u32 lds)
{
    Factors f = power_of_two(exponent_sum(*scale_a, *scale_b) - clamp(*scale_c, -100000, 100000));
    FOR_ENTRIES(m, n)
    {
        float old = f32_from_f16(c[at(i, j, ldc)]);
        s[at(i, j, lds)] = old + sign * (f32_from_f16(p[at(i, j, ldp)]) * f.first * f.second);
    }
}

// C = f16(S 2^-raise), S in units of C's scale, which grows by `raise`: one rounding. measure: of S.
extern "C" __global__ void zellige_store_f16(u32 m, u32 n, const float *__restrict__ s, u32 lds, const Measure *measure,
                                             u16 *__restrict__ c, u32 ldc, int *scale_c)
{
    int raise = measure->raise;
    Factors f = power_of_two(-raise);
    FOR_ENTRIES(m, n) c[at(i, j, ldc)] = f16_from_f32(s[at(i, j, lds)] * f.first * f.second);
    if (FIRST_THREAD())
        *scale_c = clamp(*scale_c, -100000, 100000) + raise;
}

// The f16 tile C of scale `from` with scale `to`: rounds once, where the new scale is too coarse; beyond the format: infinite.
extern "C" __global__ void zellige_rescale_f16(u32 m, u32 n, u16 *__restrict__ c, u32 ldc, const int *from, const int *to)
{
    Factors f = power_of_two(clamp(*from, -100000, 100000) - clamp(*to, -100000, 100000));
    FOR_ENTRIES(m, n) c[at(i, j, ldc)] = f16_from_f32(f32_from_f16(c[at(i, j, ldc)]) * f.first * f.second);
}

// P = A op(B) of f16 tiles with a 16-bit accumulator, the CPU's HP3 bit for bit: the sum s of four products, left to right in f32 (each
// product is exact), then acc = f16(acc + s), and so on. On CUDA cores: to check tensor cores with, not to be fast.
extern "C" __global__ void zellige_product_hp3(u32 m, u32 n, u32 k, const u16 *__restrict__ a, u32 lda,
                                               const u16 *__restrict__ b, u32 ldb, u32 transposed, u16 *__restrict__ p,
                                               u32 ldp)
{
    FOR_ENTRIES(m, n)
    {
        float acc = 0.0f;
        for (u32 l = 0; l < k; l += 4) {
            float s = 0.0f;
            for (u32 q = l; q < k && q < l + 4; q++) {
                u64 from = transposed ? at(j, q, ldb) : at(q, j, ldb);
                float product = f32_from_f16(a[at(i, q, lda)]) * f32_from_f16(b[from]);
                s = q == l ? product : s + product;
            }
            acc = f32_from_f16(f16_from_f32(acc + s));
        }
        p[at(i, j, ldp)] = f16_from_f32(acc);
    }
}
