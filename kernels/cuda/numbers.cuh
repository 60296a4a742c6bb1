// What the sources share. It stands in front of each of them; see README.md.
//
// Matrices are column-major: entry (i, j) of one with leading dimension ld lies at i + j ld. Scales are exponents: the value of a
// stored number is itself times 2^scale. The bits of NaNs are not defined: the device has one NaN, a CPU keeps payloads.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// Blocks of the kernels that go over a matrix: TILE_ROWS x TILE_COLS threads, as zellige_kernels::cuda launches them.
#define TILE_ROWS 64
#define TILE_COLS 4
#define FOR_ENTRIES(m, n)                                                                                    \
    for (u32 i = blockIdx.x * TILE_ROWS + threadIdx.x; i < (m); i += TILE_ROWS * gridDim.x)                  \
        for (u32 j = blockIdx.y * TILE_COLS + threadIdx.y; j < (n); j += TILE_COLS * gridDim.y)
#define FIRST_THREAD() (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0 && threadIdx.y == 0)

__device__ inline u64 at(u32 i, u32 j, u32 ld)
{
    return i + (u64)j * ld;
}

// --- Powers of two -------------------------------------------------------------------------------------------------------------

__device__ inline int clamp(int x, int low, int high)
{
    return x < low ? low : x > high ? high : x;
}

// Two exact factors whose product is 2^exp: one cannot reach what subnormal tiles need. They saturate beyond -252 .. 254.
struct Factors {
    float first, second;
};

__device__ inline Factors power_of_two(int exp)
{
    int e = clamp(exp, -1000, 1000);
    int first = clamp(e, -126, 127);
    int second = clamp(e - first, -126, 127);
    Factors f = {__uint_as_float((u32)(first + 127) << 23), __uint_as_float((u32)(second + 127) << 23)};
    return f;
}

// 2^e for e in -1022 .. 1023.
__device__ inline double exp2_f64(int e)
{
    return __longlong_as_double((long long)(clamp(e, -1022, 1023) + 1023) << 52);
}

// floor(log2(max)): dividing by 2^ this puts max >= 0 into [1, 2). Zero for 0, infinity and NaN.
__device__ inline int scale_exponent(double max)
{
    u64 bits = (u64)__double_as_longlong(max);
    if (bits == 0 || bits >= 0x7ff0000000000000ull)
        return 0;
    if (bits < 0x0010000000000000ull)
        return (int)((u64)__double_as_longlong(max * exp2_f64(54)) >> 52) - 1023 - 54;
    return (int)(bits >> 52) - 1023;
}

// --- Formats: rounding to nearest, ties to even, once; subnormals are kept -----------------------------------------------------------

__device__ inline u16 f16_from_f32(float x)
{
#ifdef __CUDA_ARCH__
    u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
#else
    u32 bits = __float_as_uint(x), a = bits & 0x7fffffffu;
    u32 magnitude;
    if (a > 0x7f800000u)
        magnitude = 0x7e00u | ((a >> 13) & 0x3ffu);
    else if (a >= 0x47800000u)
        magnitude = 0x7c00u;
    else if (a < 0x38800000u) // adding 0.5, whose last bit is worth 2^-24, makes the adder round
        magnitude = __float_as_uint(__uint_as_float(a) + 0.5f) - 0x3f000000u;
    else
        magnitude = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
    return (u16)(((bits >> 16) & 0x8000u) | magnitude);
#endif
}

__device__ inline float f32_from_f16(u16 h)
{
#ifdef __CUDA_ARCH__
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
#else
    u32 a = h & 0x7fffu, magnitude;
    if (a >= 0x7c00u)
        magnitude = 0x7f800000u | (a << 13) | (a > 0x7c00u ? 0x400000u : 0u);
    else if (a < 0x400u)
        magnitude = __float_as_uint(__uint_as_float(0x3f000000u + a) - 0.5f);
    else
        magnitude = (a << 13) + 0x38000000u;
    return __uint_as_float(((u32)(h & 0x8000u) << 16) | magnitude);
#endif
}

// bfloat16 in integer arithmetic everywhere: the instruction begins with sm_80.
__device__ inline u16 bf16_from_f32(float x)
{
    u32 bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (u16)((bits >> 16) | 0x40u);
    return (u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

__device__ inline float f32_from_bf16(u16 h)
{
    return __uint_as_float((u32)h << 16);
}

// e4m3 (1 sign, 4 exponent, 3 mantissa bits, bias 7; largest 448, smallest 2^-9; no infinity, one NaN) in integer arithmetic
// everywhere: the instruction begins with sm_89. As that one with .satfinite: what is beyond 448 becomes 448.
__device__ inline u8 e4m3_from_f32(float x)
{
    u32 bits = __float_as_uint(x), a = bits & 0x7fffffffu;
    if (a > 0x7f800000u)
        return 0x7fu;
    u32 magnitude;
    if (a >= 0x43e00000u)
        magnitude = 0x7eu;
    else if (a < 0x3c800000u) // below 2^-6: adding 2^14, whose last bit is worth 2^-9, makes the adder round
        magnitude = __float_as_uint(__uint_as_float(a) + 16384.0f) - 0x46800000u;
    else
        magnitude = (a + 0x7ffffu + ((a >> 20) & 1u) - 0x3c000000u) >> 20;
    return (u8)(((bits >> 24) & 0x80u) | magnitude);
}

__device__ inline float f32_from_e4m3(u8 c)
{
    u32 a = c & 0x7fu;
    u32 magnitude = (a << 20) + 0x3c000000u;
    if (a == 0x7fu)
        magnitude = 0x7fc00000u;
    else if (a < 8u)
        magnitude = __float_as_uint((float)a * 0.001953125f);
    return __uint_as_float(((u32)(c & 0x80u) << 24) | magnitude);
}

// --- What is known of a tile ---------------------------------------------------------------------------------------------------------

// zellige_kernels::cuda::Measure.
struct Measure {
    double norm;   // Frobenius
    double max;    // largest magnitude; NaN where there is a NaN
    int exponent;  // scale_exponent(max)
    int raise;     // the same where max > 2^15, else 0: by how much the scale of a 16-bit tile has to grow
};

// The scale of a tile whose largest stored number is to lie `headroom` powers of two above [1, 2). Zero where there is none to choose.
__device__ inline int chosen_scale(const Measure *measure, int headroom)
{
    bool plain = measure->max == 0.0 || !(measure->max <= 1.7976931348623157e308);
    return plain ? 0 : measure->exponent - headroom;
}
