// The staggered Dirac operator (zellige_kernels::sites): y = factor D x + diagonal z on the sites of one
// parity of a lattice in four dimensions, x on those of the other, of a number of columns. D x at a site is
// the sum of 8 products of 3 x 3 matrices with three complex numbers of neighbours, or of 16, with
// neighbours of one hop and of three: in x forwards and backwards, in y, in z, in t. Matrices are folded for
// each output site: signs and phases are in them.
//
// The bits are the CPU's: products are fused with sums where it fuses them, the four sums of a complex
// number are kept apart, matrices are summed in their order, and a site's shared scale follows from its six
// numbers.
//
// A thread is a site and a column; neighbouring threads are columns of a site, then sites of a line in x,
// eight by eight as their matrices lie: of eight sites a real number of a matrix beside each other. So a
// warp reads whole sectors, once and in order. The 18 numbers of a matrix are asked for together. They are
// not read again: the caches are left to neighbours, which 8 or 16 sites read.
//
// Matrices of one column in two or three bytes a number go through shared memory, some hops at a time: a
// thread asks for 16 bytes each time, and for the next hops before it multiplies with these. As they are
// stored eight numbers are half a sector, and what the nearest cache does for each load would take longer
// than memory.
//
// blockIdx.y is a time slice, whose sites the blocks along x share: where it lies, and where the slices
// around it lie, is found once for each block.

#define THREADS 128
#define LANES 8
#define REALS 18
#define HOPS 8
#define MOST_PARTS 64

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

// --- One site --------------------------------------------------------------------------------------------

// Extents of the sites of a parity in x, and of the lattice in y and z.
struct Lattice {
    u32 line, ny, nz;
};

// The place of a site in its slice, and whether sites of the other parity lie behind those of its line, or
// before.
struct Place {
    u32 i, y, z, offset;
};

__device__ inline u32 wrapped(u32 at, u32 length)
{
    return at >= length ? at - length : at;
}

// The place in its slice of the neighbour so many hops away: forwards and backwards in x, y, z and t.
__device__ inline u32 neighbour(const Lattice &lattice, Place at, u32 hop, u32 far)
{
    u32 half = (far + 1) / 2;
    if (hop == 0)
        at.i = wrapped(at.i + at.offset + half - 1, lattice.line);
    if (hop == 1)
        at.i = wrapped(at.i + at.offset + lattice.line - half, lattice.line);
    if (hop == 2)
        at.y = wrapped(at.y + far, lattice.ny);
    if (hop == 3)
        at.y = wrapped(at.y + lattice.ny - far, lattice.ny);
    if (hop == 4)
        at.z = wrapped(at.z + far, lattice.nz);
    if (hop == 5)
        at.z = wrapped(at.z + lattice.nz - far, lattice.nz);
    return (at.z * lattice.ny + at.y) * lattice.line + at.i;
}

// Where a thread finds what it multiplies.
struct Around {
    const u64 *slices; // of x: its own, then those one hop and three hops later and earlier
    Lattice lattice;
    Place place;
    Record at;
};

// Products are summed in the CPU's order. Those of real parts and those of imaginary parts are summed apart.
template <class R>
struct Sums {
    R sums[3][4];

    __device__ inline void clear()
    {
        for (u32 i = 0; i < 3; i++)
            for (u32 k = 0; k < 4; k++)
                sums[i][k] = 0;
    }

    __device__ inline void add(const R matrix[REALS], const R x[6])
    {
        for (u32 j = 0; j < 3; j++) {
            R re = x[2 * j], im = x[2 * j + 1];
            for (u32 i = 0; i < 3; i++) {
                R a = matrix[(3 * j + i) * 2], b = matrix[(3 * j + i) * 2 + 1];
                sums[i][0] = fused(a, re, sums[i][0]);
                sums[i][1] = fused(-b, im, sums[i][1]);
                sums[i][2] = fused(a, im, sums[i][2]);
                sums[i][3] = fused(b, re, sums[i][3]);
            }
        }
    }

    // What is added to y, or what y becomes.
    __device__ inline void put(R step, bool is_first, R y[6]) const
    {
        for (u32 c = 0; c < 6; c++) {
            const R *of = sums[c / 2] + c % 2 * 2;
            R sum = of[0] + of[1];
            y[c] = is_first ? step * sum : fused(step, sum, y[c]);
        }
    }
};

// A neighbour's numbers as they are stored.
template <int FORMAT>
__device__ inline Stored<FORMAT> read_neighbour(const Around &around, u32 hop, u32 group)
{
    Stored<FORMAT> stored;
    u32 site = neighbour(around.lattice, around.place, hop, 2 * group + 1);
    Record there = {site, around.at.column, around.at.columns};
    stored.read((const u8 *)around.slices[hop < 6 ? 0 : 2 * group + hop - 5], there);
    return stored;
}

template <int FORMAT, class N, class R>
__device__ inline void add_hop(const N *codes, const Around &around, u32 hop, u32 group, Sums<R> &sums)
{
    N stored[REALS];
    Stored<FORMAT> of_x = read_neighbour<FORMAT>(around, hop, group);
    for (u32 real = 0; real < REALS; real++)
        stored[real] = read_once(codes + real * LANES);
    R matrix[REALS], x[6];
    for (u32 real = 0; real < REALS; real++)
        matrix[real] = decoded<R>(stored[real]);
    of_x.decode(x);
    sums.add(matrix, x);
}

// Matrices where they are: `codes` are those of a thread's site.
template <int FORMAT, class N, class R>
__device__ inline void multiply(const N *codes, const Around &around, u32 groups, const double steps[2],
                                R y[6])
{
#pragma unroll 1
    for (u32 group = 0; group < groups; group++) {
        Sums<R> sums;
        sums.clear();
#pragma unroll 1
        for (u32 hop = 0; hop < HOPS; hop++) {
            add_hop<FORMAT>(codes, around, hop, group, sums);
            codes += REALS * LANES;
        }
        sums.put((R)(group == 0 ? steps[0] : steps[1]), group == 0, y);
    }
}

// Matrices that go through shared memory, of so many hops at a time.
template <class N>
struct SharedBy {
    static const u32 AT_A_TIME = sizeof(N) == 2 ? 2 : 1;
    // 16 bytes each: of eight sites, of a block of threads, and of a thread at most.
    static const u32 OF_EIGHT = AT_A_TIME * REALS * LANES * sizeof(N) / 16;
    static const u32 CHUNKS = THREADS / LANES * OF_EIGHT;
    static const u32 MOST = (CHUNKS + THREADS - 1) / THREADS;
    // Odd: then a warp finds its numbers in different banks, or nearly.
    static const u32 PITCH = OF_EIGHT | 1;

    Four chunks[THREADS / LANES * PITCH];
};

// What a thread brings of the hops from `first` on, of the first `eights` groups of eight sites.
template <class N>
__device__ inline void bring(const u8 *codes, u32 first, u32 of_sites, u32 eights, Four brought[])
{
    typedef SharedBy<N> S;
    for (u32 k = 0; k < S::MOST; k++) {
        u32 chunk = k * THREADS + threadIdx.x, eight = chunk / S::OF_EIGHT;
        if (chunk < S::CHUNKS && eight < eights) {
            const u8 *from = codes + (u64)eight * of_sites + first * (REALS * LANES * sizeof(N));
            brought[k] = read_once((const Four *)from + chunk % S::OF_EIGHT);
        }
    }
}

// All threads of a block call this. `codes` are the matrices of its first site, `eights` the groups of eight
// sites that there are.
template <int FORMAT, class N, class R>
__device__ inline void multiply_shared(const N *codes, u32 eights, const Around &around, u32 groups,
                                       const double steps[2], SharedBy<N> &shared, R y[6])
{
    typedef SharedBy<N> S;
    u32 of_sites = groups * (HOPS * REALS * LANES * sizeof(N)), eight = threadIdx.x / LANES;
    const N *own = (const N *)(shared.chunks + eight * S::PITCH) + threadIdx.x % LANES;
    Four brought[S::MOST];
    for (u32 k = 0; k < S::MOST; k++)
        brought[k] = {{0, 0, 0, 0}};
    bring<N>((const u8 *)codes, 0, of_sites, eights, brought);
    Sums<R> sums;
#pragma unroll 1
    for (u32 first = 0; first < groups * HOPS; first += S::AT_A_TIME) {
        u32 group = first / HOPS;
        __syncthreads();
        for (u32 k = 0; k < S::MOST; k++) {
            u32 chunk = k * THREADS + threadIdx.x;
            if (chunk < S::CHUNKS)
                shared.chunks[chunk / S::OF_EIGHT * S::PITCH + chunk % S::OF_EIGHT] = brought[k];
        }
        __syncthreads();
        if (first + S::AT_A_TIME < groups * HOPS)
            bring<N>((const u8 *)codes, first + S::AT_A_TIME, of_sites, eights, brought);
            if (first % HOPS == 0)
            sums.clear();
#pragma unroll 1
        for (u32 k = 0; k < S::AT_A_TIME; k++) {
            R matrix[REALS], x[6];
            Stored<FORMAT> of_x = read_neighbour<FORMAT>(around, first % HOPS + k, group);
            for (u32 real = 0; real < REALS; real++)
                matrix[real] = decoded<R>(own[(k * REALS + real) * LANES]);
            of_x.decode(x);
            sums.add(matrix, x);
        }
        if ((first + S::AT_A_TIME) % HOPS == 0)
            sums.put((R)(group == 0 ? steps[0] : steps[1]), group == 0, y);
    }
}

// --- Kernels ---------------------------------------------------------------------------------------------

// The parts of vectors and of matrices as arguments, so that no table has to be brought to the device, and
// how a thread finds one of them.
#define FOUR(X, p) X(p, 0) X(p, 1) X(p, 2) X(p, 3)
#define SIXTEEN(X, p) FOUR(X, p##0) FOUR(X, p##1) FOUR(X, p##2) FOUR(X, p##3)
#define EVERY(X) SIXTEEN(X, 0) SIXTEEN(X, 1) SIXTEEN(X, 2) SIXTEEN(X, 3)
#define FROM(p, q) , const u8 *x##p##q
#define LINKS(p, q) , const u8 *links##p##q
#define OWN(p, q) , const u8 *own##p##q
#define RESULT(p, q) , u8 *y##p##q
#define FROM_CASE(p, q)                                                                                      \
    case quaternary(1##p##q):                                                                                \
        x = x##p##q;                                                                                         \
        break;
#define OWN_CASE(p, q)                                                                                       \
    case quaternary(1##p##q):                                                                                \
        links = links##p##q;                                                                                 \
        own = own##p##q;                                                                                     \
        y = y##p##q;                                                                                         \
        break;

// What the last three digits of a number stand for to base 4.
__device__ constexpr u32 quaternary(u32 digits)
{
    return digits / 100 % 10 * 16 + digits / 10 % 10 * 4 + digits % 10;
}

// Which slice is earlier or later by so many, counted around the lattice.
__device__ inline u32 around(u32 slice, u32 k, u32 nt)
{
    u32 far = k < 3 ? 1 : 3;
    return k == 0 ? slice : wrapped(slice + (k % 2 == 1 ? far : nt - far), nt);
}

// The threads of a block, and how many blocks are to be at once on a multiprocessor: of the registers that
// each has then 18 numbers that are asked for need most.
#ifdef __CUDA_ARCH__
#define BOUNDS __launch_bounds__(THREADS, 5)
#else
#define BOUNDS __launch_bounds__(THREADS)
#endif

// A lattice of which a line has `line` sites of a parity, in slabs of so many slices but for the last.
// Written are the slices from `first` on, which is the first of its slab, of output sites whose coordinates
// have a sum that is odd or not: of each slab its matrices, what is multiplied by the diagonal, and y. Of x
// each slab from number `first_of_x` on, counted around the lattice, as far as it is read. Where `asks` is
// not 0, nothing is done if *done is not 0.
#define DSLASH(name, N, R)                                                                                   \
    extern "C" __global__ void BOUNDS                                                                        \
        name(u32 line, u32 ny, u32 nz, u32 nt, u32 slab, u32 slabs, u32 first, u32 first_of_x, u32 odd,      \
             u32 groups, u32 columns, u32 of_x, u32 of_own, u32 of_y, double step, double second_step,       \
             double factor, double diagonal, u32 asks,                                                       \
             const double *done EVERY(FROM) EVERY(LINKS) EVERY(OWN) EVERY(RESULT))                           \
    {                                                                                                        \
        __shared__ u64 slices[5];                                                                            \
        double is_done = asks != 0 ? *done : 0.0;                                                            \
        u32 t = first + blockIdx.y, slice = line * ny * nz;                                                  \
        if (threadIdx.x < 5) {                                                                               \
            u32 beside = around(t, threadIdx.x, nt), of = beside / slab;                                     \
            const u8 *x = 0;                                                                                 \
            switch (wrapped(of + slabs - first_of_x, slabs)) {                                               \
                EVERY(FROM_CASE)                                                                             \
            }                                                                                                \
            slices[threadIdx.x] = (u64)x + (u64)(beside % slab) * slice * columns * bytes_of(of_x);          \
        }                                                                                                    \
        if (is_done != 0.0)                                                                                  \
            return;                                                                                          \
        __syncthreads();                                                                                     \
        const u8 *links = 0, *own = 0;                                                                       \
        u8 *y = 0;                                                                                           \
        switch (blockIdx.y / slab) {                                                                         \
            EVERY(OWN_CASE)                                                                                  \
        }                                                                                                    \
        Lattice lattice = {line, ny, nz};                                                                    \
        double steps[2] = {step, second_step};                                                               \
        Task<R> task = {slices,  lattice, steps, (R)factor, (R)diagonal, groups, columns, of_x, of_own, of_y,\
                        t + odd, blockIdx.y % slab};                                                         \
        of_site<N>(task, (const N *)links, own, y);                                                          \
    }

__device__ inline u32 bytes_of(u32 format)
{
    return format == DOUBLE ? 48 : format == SINGLE || format == INT30 ? 24 : 16;
}

// What all threads of a block share.
template <class R>
struct Task {
    const u64 *slices;
    Lattice lattice;
    const double *steps;
    R factor, diagonal;
    u32 groups, columns, of_x, of_own, of_y;
    u32 parity; // of the sum of all coordinates but those in space
    u32 slice;  // of the slab
};

// Which numbers go through shared memory.
template <class N>
struct Shared {
    static const bool IS_USED = false;
};

template <>
struct Shared<short> : SharedBy<short> {
    static const bool IS_USED = true;
};

template <>
struct Shared<Fixed24> : SharedBy<Fixed24> {
    static const bool IS_USED = true;
};

template <class N, class R>
__device__ inline void of_site(const Task<R> &task, const N *links, const u8 *own, u8 *y)
{
    const Lattice &lattice = task.lattice;
    __shared__ Shared<N> shared;
    u32 q = blockIdx.x * THREADS + threadIdx.x, columns = task.columns;
    u32 lines = lattice.ny * lattice.nz, of_line = (lattice.line + LANES - 1) / LANES, all = lines * of_line;
    u32 place_of_site = columns == 1 ? q : q / columns, column = columns == 1 ? 0 : q % columns;
    u32 eight = place_of_site / LANES, lane = place_of_site % LANES;
    u32 of_slice = eight / of_line, i = eight % of_line * LANES + lane;
    bool is_there = eight < all && i < lattice.line;
    // Threads without a site of their own help to bring matrices, and multiply those of some other one.
    of_slice = eight < all ? of_slice : 0;
    i = i < lattice.line ? i : 0;
    Place place = {i, of_slice % lattice.ny, of_slice / lattice.ny, 0};
    place.offset = (place.y + place.z + task.parity) % 2;
    u32 numbers = task.groups * (HOPS * REALS * LANES);
    const N *of_slab = links + (u64)task.slice * all * numbers;
    const N *codes = of_slab + (u64)(eight < all ? eight : 0) * numbers + lane;
    u32 first = blockIdx.x * (THREADS / LANES);
    Record at = {(task.slice * lines + of_slice) * lattice.line + i, column, columns};
    Around around = {task.slices, lattice, place, at};
    R sum[6] = {0, 0, 0, 0, 0, 0};
#define MULTIPLY(format)                                                                                     \
    case format:                                                                                             \
        if constexpr (Shared<N>::IS_USED)                                                                    \
            if (columns == 1) {                                                                              \
                multiply_shared<format>(of_slab + (u64)first * numbers, all - first, around, task.groups,    \
                                        task.steps, shared, sum);                                            \
                break;                                                                                       \
            }                                                                                                \
        multiply<format>(codes, around, task.groups, task.steps, sum);                                       \
        break;
    switch (task.of_x) {
        MULTIPLY(DOUBLE)
        MULTIPLY(SINGLE)
        MULTIPLY(HALF)
        MULTIPLY(INT20)
        MULTIPLY(INT30)
    }
    if (!is_there)
        return;
    R z[6] = {0, 0, 0, 0, 0, 0};
    if (task.of_own != NONE)
        decode_any(task.of_own, own, at, z);
    for (u32 c = 0; c < 6; c++) {
        R product = sum[c] * task.factor;
        sum[c] = task.of_own != NONE ? z[c] * task.diagonal + product : product;
    }
    encode(task.of_y, sum, y, at);
}

// A text for each kernel: nobody needs all of them, and together they take NVRTC many seconds.
#if KERNEL == 0
DSLASH(zellige_dslash_fp64_in_fp64, double, double)
#elif KERNEL == 1
DSLASH(zellige_dslash_fp32_in_fp64, float, double)
#elif KERNEL == 2
DSLASH(zellige_dslash_fixed32_in_fp64, int, double)
#elif KERNEL == 3
DSLASH(zellige_dslash_fixed24_in_fp64, Fixed24, double)
#elif KERNEL == 4
DSLASH(zellige_dslash_fixed16_in_fp64, short, double)
#elif KERNEL == 5
DSLASH(zellige_dslash_fp64_in_fp32, double, float)
#elif KERNEL == 6
DSLASH(zellige_dslash_fp32_in_fp32, float, float)
#elif KERNEL == 7
DSLASH(zellige_dslash_fixed32_in_fp32, int, float)
#elif KERNEL == 8
DSLASH(zellige_dslash_fixed24_in_fp32, Fixed24, float)
#elif KERNEL == 9
DSLASH(zellige_dslash_fixed16_in_fp32, short, float)
#endif
