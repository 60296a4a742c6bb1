// Products with matrices of few bits (zellige_kernels::few_bits); the CPU's bits: sums within a group of columns are sums of integers,
// which are exact, and those over groups are f32 in the order of the groups.
//
// A block of threads has 16 rows of a block of 64, and takes 32 groups at a time: a thread has one row of one group. Sixteen threads read
// a piece of 64 bytes; planes of fewer bits are read by several loads, which the nearest cache serves. Then 16 threads add the products
// of these groups one after the other, while the other threads read the next groups: products of two turns are kept, so that one
// barrier a turn is enough. The vector is read by every block; a frame of 19 078 slopes takes 70 kB, which caches hold. A matrix of 4092 rows has 256 blocks.
//
// The vector is one record for each group: its unit, the sums of its three digits, then the digits of four columns in each word, all of the
// lowest digit first. `places` has the first word of each record, and the end.
//
// Nothing of this was measured on a GPU.

#define PART 16    // rows of a block of threads
#define GROUPS 32  // at a time
#define HEAD 4     // words of a record before the digits
#define DIGITS 3
#define SCALES 128 // bytes of the scales of 64 rows

// Adds the products of four pairs of signed integers of 8 bits.
__device__ inline int dot4(u32 x, u32 y, int sum)
{
#if defined(__CUDA_ARCH__)
    return __dp4a((int)x, (int)y, sum);
#else
    for (int k = 0; k < 32; k += 8)
        sum += (int)(signed char)(u8)(x >> k) * (int)(signed char)(u8)(y >> k);
    return sum;
#endif
}

// The integers of four columns, from the planes of 4, 2 and 1 of their bits; `count` is the number of words of 8 bits each.
template <int BITS>
__device__ inline u32 four_integers(const u32 *packed, u32 count, u32 at)
{
    // As signed integers: the offset is taken away.
    if (BITS == 8)
        return packed[at] ^ 0x80808080u;
    u32 codes = 0;
    if (BITS & 4) {
        u32 words = count / 2, k = at / words;
        codes |= packed[at - k * words] >> 4 * k & 0x0f0f0f0fu;
        packed += words;
    }
    if (BITS & 2) {
        u32 words = count / 4, k = at / words;
        codes |= (packed[at - k * words] >> 2 * k & 0x03030303u) << (BITS & 4);
        packed += words;
    }
    if (BITS & 1) {
        u32 words = count / 8, k = at / words;
        codes |= (packed[at - k * words] >> k & 0x01010101u) << (BITS & 6);
    }
    return codes;
}

// The product of a row with the digits of a group: integers of BITS bits of `fours` times four columns. `start` times the sum of each
// digit is added. COUNT is `fours` where the compiler is to know it, so that the planes need no divisions, or 0.
template <int BITS, int COUNT>
__device__ inline float product_of(const u32 *packed, u32 row, u32 fours, const u32 *record, int start)
{
    if (COUNT > 0)
        fours = COUNT;
    int sums[DIGITS];
    for (int d = 0; d < DIGITS; d++)
        sums[d] = start * (int)record[1 + d];
    const u32 *digits = record + HEAD;
#pragma unroll 8
    for (u32 four = 0; four < fours; four++) {
        u32 codes = four_integers<BITS>(packed, fours * PART, four * PART + row);
        for (int d = 0; d < DIGITS; d++)
            sums[d] = dot4(codes, digits[d * fours + four], sums[d]);
    }
    return fmaf(fmaf((float)sums[2], 256.0f, (float)sums[1]), 256.0f, (float)sums[0]);
}

template <int BITS>
__device__ inline float row_product(const u32 *packed, u32 row, u32 fours, const u32 *record, int start)
{
    return fours == 8 ? product_of<BITS, 8>(packed, row, fours, record, start)
                      : product_of<BITS, 0>(packed, row, fours, record, start);
}

// Integers of 1 to 8 bits with their offset.
__device__ inline float any_product(u32 bits, const u32 *packed, u32 row, u32 fours, const u32 *record)
{
    switch (bits) {
    case 1: return row_product<1>(packed, row, fours, record, -1);
    case 2: return row_product<2>(packed, row, fours, record, -2);
    case 3: return row_product<3>(packed, row, fours, record, -4);
    case 4: return row_product<4>(packed, row, fours, record, -8);
    case 5: return row_product<5>(packed, row, fours, record, -16);
    case 6: return row_product<6>(packed, row, fours, record, -32);
    case 7: return row_product<7>(packed, row, fours, record, -64);
    default: return row_product<8>(packed, row, fours, record, 0);
    }
}

// Adds the products with groups `first` to `end` to the sums of all rows, or writes them if `is_new`. `starts` and `bits` are those of each
// group of each block of rows, block after block.
extern "C" __global__ __launch_bounds__(PART *GROUPS) void zellige_few_bits(const u8 *bytes, const u64 *starts, const u8 *bits,
                                                                            u32 groups, u32 first, u32 end, const u32 *records,
                                                                            const u32 *places, u32 is_new, float *sums)
{
    __shared__ float products[2][GROUPS][PART], scales[2][GROUPS][PART];
    u32 row = threadIdx.x % PART, slot = threadIdx.x / PART;
    u32 block = blockIdx.x / 4, part = blockIdx.x % 4, at = blockIdx.x * PART + row;
    float sum = slot > 0 || is_new ? 0.0f : sums[at];
    u32 turn = 0;
    for (u32 begin = first; begin < end; begin += GROUPS, turn ^= 1) {
        u32 group = begin + slot;
        if (group < end) {
            u64 which = (u64)block * groups + group;
            const u8 *stored = bytes + starts[which];
            const u32 *record = records + places[group];
            u32 width = bits[which], fours = (places[group + 1] - places[group] - HEAD) / DIGITS;
            const u32 *packed = (const u32 *)(stored + SCALES);
            float low = 0.0f;
            if (width > 8) {
                // As signed integers of 8 bits these are 128 less.
                low = row_product<8>(packed + part * fours * PART, row, fours, record, 128);
                packed += 4 * fours * PART;
                width -= 8;
                float high = any_product(width, packed + part * fours * width * 2, row, fours, record);
                low = fmaf(high, 256.0f, low);
            } else {
                low = any_product(width, packed + part * fours * width * 2, row, fours, record);
            }
            products[turn][slot][row] = low * __uint_as_float(record[0]);
            u32 scale = ((const u16 *)stored)[part * PART + row];
            scales[turn][slot][row] = __uint_as_float(scale << 16);
        }
        __syncthreads();
        if (slot == 0) {
            u32 here = end - begin < GROUPS ? end - begin : GROUPS;
            for (u32 k = 0; k < here; k++)
                sum = fmaf(products[turn][k][row], scales[turn][k][row], sum);
        }
    }
    if (slot == 0)
        sums[at] = sum;
}
