// Numbers of sites and of matrices as they are stored, for dslash.cu (zellige_kernels::sites): reads, conversions, and records of six numbers.

// SiteFormat::ALL.
#define DOUBLE 0
#define SINGLE 1
#define HALF 2
#define INT20 3
#define INT30 4
// There is no vector.
#define NONE 5

// What is read or written at once. On a GPU it lies at a multiple of its size.
#ifdef __CUDA_ARCH__
#define AT_ONCE(bytes) alignas(bytes)
#else
#define AT_ONCE(bytes)
#endif
struct AT_ONCE(16) Complex {
    double re, im;
};
struct AT_ONCE(8) Two {
    u32 low, high;
};
struct AT_ONCE(16) Four {
    u32 word[4];
};

// A 24-bit integer, the lowest byte first.
struct Fixed24 {
    u8 bytes[3];
};

// --- Numbers ---------------------------------------------------------------------------------------------

__device__ inline double fused(double a, double b, double c)
{
    return fma(a, b, c);
}

__device__ inline float fused(float a, float b, float c)
{
    return fmaf(a, b, c);
}

__device__ inline double magnitude(double x)
{
    return fabs(x);
}

__device__ inline float magnitude(float x)
{
    return fabsf(x);
}

// To nearest, ties to even.
__device__ inline int rounded(double x)
{
    return (int)rint(x);
}

__device__ inline int rounded(float x)
{
    return (int)rintf(x);
}

// A number that is read once.
template <class N>
__device__ inline N read_once(const N *from)
{
#ifdef __CUDA_ARCH__
    return __ldcs(from);
#else
    return *from;
#endif
}

__device__ inline Fixed24 read_once(const Fixed24 *from)
{
    return *from;
}

__device__ inline Four read_once(const Four *from)
{
#ifdef __CUDA_ARCH__
    uint4 four = __ldcs((const uint4 *)from);
    return {{four.x, four.y, four.z, four.w}};
#else
    return *from;
#endif
}

// What others read, too, and nobody writes meanwhile.
__device__ inline Complex read_shared(const Complex *from)
{
#ifdef __CUDA_ARCH__
    double2 z = __ldg((const double2 *)from);
    return {z.x, z.y};
#else
    return *from;
#endif
}

__device__ inline Two read_shared(const Two *from)
{
#ifdef __CUDA_ARCH__
    uint2 two = __ldg((const uint2 *)from);
    return {two.x, two.y};
#else
    return *from;
#endif
}

__device__ inline Four read_shared(const Four *from)
{
#ifdef __CUDA_ARCH__
    uint4 four = __ldg((const uint4 *)from);
    return {{four.x, four.y, four.z, four.w}};
#else
    return *from;
#endif
}

// An integer as a number: exactly, or to nearest. Sums with a number whose last digit is worth 1 are faster
// than conversions, which are exact where these are.
template <class R>
__device__ inline R number_of(int x);

template <>
__device__ inline double number_of<double>(int x)
{
    u64 bits = 0x4330000000000000ull | ((u32)x ^ 0x80000000u);
    return __longlong_as_double((long long)bits) - 4503601774854144.0; // 2^52 + 2^31
}

template <>
__device__ inline float number_of<float>(int x)
{
    return (float)x;
}

// The same of an integer of up to 22 bits.
template <class R>
__device__ inline R number_of_few(int x);

template <>
__device__ inline double number_of_few<double>(int x)
{
    return number_of<double>(x);
}

template <>
__device__ inline float number_of_few<float>(int x)
{
    return __uint_as_float(0x4b400000u + (u32)x) - 12582912.0f; // 2^23 + 2^22
}

// A number of a matrix, or the integer that it is stored as.
template <class R>
__device__ inline R decoded(double code)
{
    return (R)code;
}

template <class R>
__device__ inline R decoded(float code)
{
    return (R)code;
}

template <class R>
__device__ inline R decoded(int code)
{
    return number_of<R>(code);
}

template <class R>
__device__ inline R decoded(short code)
{
    return number_of_few<R>(code);
}

template <class R>
__device__ inline R decoded(Fixed24 code)
{
    u32 low = code.bytes[0], middle = code.bytes[1], high = code.bytes[2];
    return number_of<R>((int)(low << 8 | middle << 16 | high << 24) >> 8);
}

// --- Sites -----------------------------------------------------------------------------------------------

// The biased exponent of a scale as a number: zero for zeros, NaN where there is no number.
__device__ inline float scale_of(u32 exponent)
{
    return __uint_as_float(exponent == 255 ? 0x7fc00000u : exponent << 23);
}

// Which record of how many columns.
struct Record {
    u32 site, column, columns;

    __device__ inline u64 place() const
    {
        return (u64)site * columns + column;
    }
};

// A record as it is stored, and as numbers.
template <int FORMAT>
struct Stored;

template <>
struct Stored<DOUBLE> {
    Complex z[3];

    __device__ inline void read(const u8 *from, Record at)
    {
        for (u32 c = 0; c < 3; c++)
            z[c] = read_shared((const Complex *)from + ((u64)at.site * 3 + c) * at.columns + at.column);
    }

    template <class R>
    __device__ inline void decode(R x[6]) const
    {
        for (u32 c = 0; c < 3; c++) {
            x[2 * c] = (R)z[c].re;
            x[2 * c + 1] = (R)z[c].im;
        }
    }
};

struct ThreePairs {
    Two pairs[3];

    __device__ inline void read(const u8 *from, Record at)
    {
        const Two *own = (const Two *)from + at.place() * 3;
        for (u32 c = 0; c < 3; c++)
            pairs[c] = read_shared(own + c);
    }
};

struct FourWords {
    Four words;

    __device__ inline void read(const u8 *from, Record at)
    {
        words = read_shared((const Four *)from + at.place());
    }
};

template <>
struct Stored<SINGLE> : ThreePairs {
    template <class R>
    __device__ inline void decode(R x[6]) const
    {
        for (u32 c = 0; c < 3; c++) {
            x[2 * c] = (R)__uint_as_float(pairs[c].low);
            x[2 * c + 1] = (R)__uint_as_float(pairs[c].high);
        }
    }
};

template <>
struct Stored<HALF> : FourWords {
    template <class R>
    __device__ inline void decode(R x[6]) const
    {
        R scale = (R)__uint_as_float(words.word[3]);
        for (u32 c = 0; c < 3; c++) {
            x[2 * c] = number_of_few<R>((int)(words.word[c] << 16) >> 16) * scale;
            x[2 * c + 1] = number_of_few<R>((int)words.word[c] >> 16) * scale;
        }
    }
};

template <>
struct Stored<INT20> : FourWords {
    template <class R>
    __device__ inline void decode(R x[6]) const
    {
        u32 a = words.word[0], b = words.word[1], c = words.word[2], d = words.word[3];
        R scale = (R)scale_of(d >> 24);
        x[0] = number_of_few<R>((int)(a << 12) >> 12) * scale;
        x[1] = number_of_few<R>((int)(a & 0xfff00000u) >> 12 | (int)(b & 0xffu)) * scale;
        x[2] = number_of_few<R>((int)(b << 4) >> 12) * scale;
        x[3] = number_of_few<R>((int)(b & 0xf0000000u) >> 12 | (int)(c & 0xffffu)) * scale;
        x[4] = number_of_few<R>((int)(c & 0xffff0000u) >> 12 | (int)(d & 0xfu)) * scale;
        x[5] = number_of_few<R>((int)(d << 8) >> 12) * scale;
    }
};

template <>
struct Stored<INT30> : ThreePairs {
    template <class R>
    __device__ inline void decode(R x[6]) const
    {
        u32 low = pairs[0].low >> 30 | pairs[0].high >> 30 << 2;
        R scale = (R)scale_of(low | pairs[1].low >> 30 << 4 | pairs[1].high >> 30 << 6);
        for (u32 c = 0; c < 3; c++) {
            x[2 * c] = number_of<R>((int)(pairs[c].low << 2) >> 2) * scale;
            x[2 * c + 1] = number_of<R>((int)(pairs[c].high << 2) >> 2) * scale;
        }
    }
};

template <int FORMAT, class R>
__device__ inline void decode(const u8 *from, Record at, R x[6])
{
    Stored<FORMAT> stored;
    stored.read(from, at);
    stored.decode(x);
}

// The same where the format is no constant.
template <class R>
__device__ inline void decode_any(u32 format, const u8 *from, Record at, R x[6])
{
    switch (format) {
    case DOUBLE: return decode<DOUBLE>(from, at, x);
    case SINGLE: return decode<SINGLE>(from, at, x);
    case HALF: return decode<HALF>(from, at, x);
    case INT20: return decode<INT20>(from, at, x);
    default: return decode<INT30>(from, at, x);
    }
}

// The largest magnitude; NaN where a number is not finite, or too large for float32.
template <class R>
__device__ inline float largest(const R x[6])
{
    R most = 0, zero = 0;
    for (u32 c = 0; c < 6; c++) {
        R size = magnitude(x[c]);
        most = size > most ? size : most;
        // Zero where it is finite.
        zero = zero + x[c] * (R)0;
    }
    float m = (float)most;
    return m <= 3.402823466e38f && zero == (R)0 ? m : __uint_as_float(0x7fc00000u);
}

// The biased exponent of the scale of integers up to `most`: 0 for zeros, 255 where there is none.
__device__ inline u32 exponent_of(float largest, float most)
{
    u32 above = (__float_as_uint(largest / most) >> 23 & 0xffu) + 1;
    return largest == 0.0f ? 0 : above > 253 ? 255 : above;
}

// Multiples of a scale with this exponent.
template <class R>
__device__ inline void multiples(const R x[6], u32 exponent, u32 q[6])
{
    bool is_number = exponent - 1 < 254;
    R inverse = (R)__uint_as_float(is_number ? (254 - exponent) << 23 : 0);
    for (u32 c = 0; c < 6; c++)
        q[c] = is_number ? (u32)rounded(x[c] * inverse) : 0;
}

template <class R>
__device__ inline void encode(u32 format, const R x[6], u8 *to, Record at)
{
    u64 record = at.place();
    if (format == DOUBLE) {
        for (u32 c = 0; c < 3; c++) {
            Complex z = {(double)x[2 * c], (double)x[2 * c + 1]};
            ((Complex *)to)[((u64)at.site * 3 + c) * at.columns + at.column] = z;
        }
    } else if (format == SINGLE) {
        for (u32 c = 0; c < 3; c++) {
            Two two = {__float_as_uint((float)x[2 * c]), __float_as_uint((float)x[2 * c + 1])};
            ((Two *)to)[record * 3 + c] = two;
        }
    } else if (format == HALF) {
        float m = largest(x), least = 1.17549435e-38f, scale = m / 32767.0f;
        scale = m == 0.0f ? 0.0f : scale < least ? least : scale;
        R divisor = (R)(m > 0.0f ? scale : 1.0f);
        u32 q[6];
        for (u32 c = 0; c < 6; c++)
            q[c] = m > 0.0f ? (u32)clamp(rounded(x[c] / divisor), -32767, 32767) : 0;
        // Where there is no largest magnitude it is NaN itself.
        Four words = {{0, 0, 0, m != m ? 0x7fc00000u : __float_as_uint(scale)}};
        for (u32 c = 0; c < 3; c++)
            words.word[c] = (q[2 * c] & 0xffffu) | q[2 * c + 1] << 16;
        ((Four *)to)[record] = words;
    } else if (format == INT20) {
        u32 q[6], exponent = exponent_of(largest(x), 524287.0f);
        multiples(x, exponent, q);
        for (u32 c = 0; c < 6; c++)
            q[c] &= 0xfffffu;
        Four words = {{q[0] | q[1] >> 8 << 20, (q[1] & 0xffu) | q[2] << 8 | q[3] >> 16 << 28,
                       (q[3] & 0xffffu) | q[4] >> 4 << 16, (q[4] & 0xfu) | q[5] << 4 | exponent << 24}};
        ((Four *)to)[record] = words;
    } else {
        u32 q[6], exponent = exponent_of(largest(x), 536870911.0f);
        multiples(x, exponent, q);
        for (u32 c = 0; c < 6; c++)
            q[c] = (q[c] & 0x3fffffffu) | (c < 4 ? (exponent >> (2 * c) & 3) << 30 : 0);
        for (u32 c = 0; c < 3; c++) {
            Two two = {q[2 * c], q[2 * c + 1]};
            ((Two *)to)[record * 3 + c] = two;
        }
    }
}
