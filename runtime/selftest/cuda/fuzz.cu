// Bodies of fuzzed tasks (zellige-selftest), in pieces: a body begins a number, looks at what it reads, which changes the number, and then
// writes what the number says. The rules are those of kernels/cuda/README.md. All is integers, so the bits are those of the host.
//
// A value is `len` words of a format: 1 (64 bits), 2 (32 bits), 3 (16 bits), or 0, a plain vector of 64-bit words. One thread does all:
// values are short, and what is tried here is who sees which value when.

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define PLAIN 0
#define WIDE 1
#define HALF 2
#define QUARTER 3

// splitmix64 (Steele, Lea, Flood 2014).
__device__ inline u64 scramble(u64 state)
{
    u64 z = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

__device__ inline u64 rotated(u64 x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

// One number from two that differs wherever one of them does.
__device__ inline u64 blend(u64 a, u64 b)
{
    return scramble((rotated(a, 17) * 0x9e3779b97f4a7c15ull) ^ (b + 0xd1b54a32d192ed03ull));
}

__device__ inline u64 word(u32 format, const void *words, u32 i)
{
    switch (format) {
    case HALF:
        return ((const u32 *)words)[i];
    case QUARTER:
        return ((const u16 *)words)[i];
    default:
        return ((const u64 *)words)[i];
    }
}

// Keeps what fits.
__device__ inline void put(u32 format, void *words, u32 i, u64 word)
{
    switch (format) {
    case HALF:
        ((u32 *)words)[i] = (u32)word;
        break;
    case QUARTER:
        ((u16 *)words)[i] = (u16)word;
        break;
    default:
        ((u64 *)words)[i] = word;
    }
}

__device__ inline u64 digest_of(u32 format, u32 len, const void *words)
{
    u64 digest = format == PLAIN ? len : blend(format, len);
    for (u32 i = 0; i < len; i++)
        digest = blend(digest, word(format, words, i));
    return digest;
}

__device__ inline u64 converted(u32 from, u32 to, u64 word)
{
    if (from == WIDE && to == HALF)
        return word >> 32;
    if (from == WIDE && to == QUARTER)
        return (word >> 48) ^ word;
    if (from == HALF && to == QUARTER)
        return (word >> 16) ^ word;
    if (from == HALF && to == WIDE)
        return (word << 32) | 0x55555555u;
    if (from == QUARTER && to == WIDE)
        return (word << 48) | 0x3333u;
    if (from == QUARTER && to == HALF)
        return word << 16;
    return word;
}

extern "C" __global__ void zellige_fuzz_begin(u64 seed, u64 *digest)
{
    *digest = seed;
}

extern "C" __global__ void zellige_fuzz_look(u32 format, u32 len, const void *words, u64 *digest)
{
    *digest = blend(*digest, digest_of(format, len, words));
}

// What follows writes as operand `operand` of a body that has looked at all that it reads.

extern "C" __global__ void zellige_fuzz_mix(u32 format, u32 len, void *words, u64 operand, const u64 *digest)
{
    u64 seed = blend(*digest, operand);
    for (u32 i = 0; i < len; i++)
        put(format, words, i, rotated(word(format, words, i) * 0x2545f4914f6cdd1dull, 7) ^ blend(seed, i));
}

extern "C" __global__ void zellige_fuzz_add(u32 format, u32 len, void *words, u64 operand, const u64 *digest)
{
    u64 seed = blend(*digest, operand);
    for (u32 i = 0; i < len; i++)
        put(format, words, i, word(format, words, i) + blend(seed, i));
}

extern "C" __global__ void zellige_fuzz_fresh(u32 format, u32 len, void *words, u64 operand, const u64 *digest)
{
    u64 seed = blend(*digest, operand);
    for (u32 i = 0; i < len; i++)
        put(format, words, i, blend(seed, i));
}

extern "C" __global__ void zellige_fuzz_convert(u32 from, u32 len, const void *words, u32 to, void *out)
{
    for (u32 i = 0; i < len; i++)
        put(to, out, i, converted(from, to, word(from, words, i)));
}

// A number that depends on every word, and is exact.
extern "C" __global__ void zellige_fuzz_norm(u32 format, u32 len, const void *words, double *norm)
{
    *norm = (double)(digest_of(format, len, words) >> 12);
}
