// Products with panels of sparse matrices (zellige_kernels::sell): y = A x, elements of 1 x 1 to 4 x 4 numbers, for 1, 2 or 4 vectors at once. More
// are blocks of threads of their own, four vectors each: a thread's sums are in registers, and what one block has brought to the cache the other finds.
//
// The bits are the CPU's. A lane of a group is one chain of fused multiply-adds over its steps, and over the columns of each element; it is
// multiplied by the bucket's scale, which is a power of two; a row's lanes are added in the order of the panel from zero, and the sum is multiplied by the
// powers of two of the panel and the row.
//
// A block of threads is a tile, whose sums are in shared memory. A thread is one row of numbers of one lane of a group, for all vectors: a group
// takes 8, 16, 24 or 32 threads by the edge of its elements. A group of eight rows is narrow for a warp, and steps of a lane cannot be divided among
// threads, since a sum has one order: so four groups of single numbers (two of blocks of 2 x 2, one of 4 x 4) share a warp. In a step each of them
// reads 16 bytes of columns and 8 to 64 bytes of codes that follow one another, 32 to 128 for blocks; the next step's lie behind them, in sectors that have
// been fetched with these. So memory is read once and in order, and what is not as wide as a warp costs turns of the nearest cache only. A
// block has as many threads as a section of a full tile has rows of lanes. Groups begin anywhere, so their places come as a table (Guide), and codes, which
// are not aligned, are put together of two or three aligned words.
//
// In a section whose rows have one lane each, threads add to the sums of different rows and wait for nobody. Where a row is in pieces, lanes go through
// shared memory, and each row's thread adds those of its row in order.
//
// Nothing of this was measured on a GPU.

#define LANES 8
#define MOST_PARTS 64
// Of a tile that has a list of them; each has four bytes, and the list ends where the tile begins.
#define DIAGONALS 8
// Words of the guide's entries, and what is in them.
#define TILE 8
#define SECTION 2
#define LONG 1u
#define HAS_EXPONENTS 2u
#define ON_DIAGONALS 4u
#define NEGATIVE 32u
#define PIECES 64u

// value * 2^exponent, of any exponent, as the CPU's times_power_of_two.
__device__ inline double times_power_of_two(double value, int exponent)
{
    if (exponent >= -1022 && exponent <= 1023)
        return value * exp2_f64(exponent);
    int first = clamp(exponent / 2, -1022, 1023);
    return value * exp2_f64(first) * exp2_f64(clamp(exponent - first, -1022, 1023));
}

// --- Formats: zellige_kernels::packed ------------------------------------------------------------------------------------------------

struct Format {
    u32 bytes;     // of a code
    bool scaled;   // three bits of exponent, and a sign where it has one; else the leading bytes of an f64, or of an f32 where there are up to four
    bool has_sign;
};

// PackedFormat::ALL[at]: 8 to 5 bytes, 4 to 2; scaled ones of 6 to 1, first with a sign.
__device__ inline Format format_of(u32 at)
{
    Format format = {at < 7 ? 8 - at : at < 13 ? 13 - at : 19 - at, at >= 7, at < 13};
    return format;
}

// Bytes at any place: those of the panel from the aligned word before a tile on.
struct Bytes {
    const u8 *bytes;
    const u32 *words;
};

__device__ inline u32 four_bytes(Bytes from, u32 at)
{
    const u32 *words = from.words + at / 4;
    u32 shift = at % 4 * 8;
    return (u32)((words[0] | (u64)words[1] << 32) >> shift);
}

// A code, first bit first: what comes behind it is zero.
__device__ inline u64 code(Bytes from, u32 at, u32 bytes)
{
    const u32 *words = from.words + at / 4;
    u32 shift = at % 4 * 8;
    u64 whole = (words[0] | (u64)words[1] << 32) >> shift;
    // Two words have five bytes from any place on.
    if (bytes > 5 && shift > 0)
        whole |= (u64)words[2] << (64 - shift);
    return whole << (64 - 8 * bytes);
}

template <bool SCALED>
__device__ inline double decoded(u64 code, Format format)
{
    if (SCALED) {
        u64 sign = format.has_sign ? 1ull << 63 : 0;
        u64 magnitude = ((code & ~sign) >> (format.has_sign ? 8 : 9)) + (1023ull << 52);
        return __longlong_as_double((long long)(magnitude | (code & sign)));
    }
    if (format.bytes > 4)
        return __longlong_as_double((long long)code);
    return (double)__uint_as_float((u32)(code >> 32));
}

// --- Where x is --------------------------------------------------------------------------------------------------------------------------

// What a tile reads of x: from one place on, or, where its window is in several parts, wherever `each` says.
struct Window {
    const double *whole; // 0 in the second case
    const double *const *parts;
    u64 first, each; // numbers of one vector
    u32 count;       // of vectors
    u32 vector;      // the first one of this block
};

template <int B>
__device__ inline const double *place(const Window &window, u32 column)
{
    if (window.whole)
        return window.whole + (u64)column * B * window.count;
    u64 first = window.first + (u64)column * B, part = first / window.each;
    return window.parts[part] + (first - part * window.each) * window.count + window.vector;
}

// --- One lane ----------------------------------------------------------------------------------------------------------------------------

// How a tile's columns are written: with so many bits for each lane of a step, or for the first one of a run. Those of 4 bits are numbers of diagonals.
struct Columns {
    u32 bits;
    const int *diagonals; // or 0
};

// A thread's place in its group, and where it is.
struct Lane {
    u32 lane, row;        // of the group; of the element
    u32 of_tile, of_first; // the row of elements in the tile, of this lane and of the first one
    u32 at;               // the next step
    Columns columns;
    Format format;
};

// The column of a lane of a step; those of a run follow the only one that is there.
__device__ inline u32 column_of(Bytes from, const Lane &lane, bool is_run)
{
    const Columns &columns = lane.columns;
    u32 bits = columns.bits, at = is_run ? 0 : lane.lane * bits;
    u32 column = four_bytes(from, lane.at + at / 8) >> at % 8;
    if (bits < 32)
        column &= (1u << bits) - 1;
    if (columns.diagonals)
        column = (is_run ? lane.of_first : lane.of_tile) + (u32)columns.diagonals[column];
    return is_run ? column + lane.lane : column;
}

// Adds a step of `active` lanes.
template <int B, int K, bool SCALED>
__device__ inline void add_step(Bytes from, Lane &lane, u32 active, bool is_run, const Window &window, double (&sums)[K])
{
    u32 codes = lane.at + ((is_run ? 1 : active) * lane.columns.bits + 7) / 8, bytes = lane.format.bytes;
    if (lane.lane < active) {
        const double *x = place<B>(window, column_of(from, lane, is_run));
        for (int j = 0; j < B; j++, x += window.count) {
            u32 at = (j * B + lane.row) * active + lane.lane;
            double a = decoded<SCALED>(code(from, codes + at * bytes, bytes), lane.format);
            for (int k = 0; k < K; k++)
                sums[k] = fma(a, x[k], sums[k]);
        }
    }
    lane.at = codes + active * (B * B) * bytes;
}

// What comes before the steps of a group.
struct Group {
    u32 runs, full, ragged; // steps
    u32 rows;               // where the row numbers are
    bool follow;            // only the first one's is there
    u32 lanes;              // where the numbers of lanes of ragged steps are
    u32 steps;              // where steps begin
};

__device__ inline Group group_at(Bytes from, u32 at)
{
    u32 steps = from.bytes[at], full = from.bytes[at + 1];
    Group group;
    bool has_runs = (full & 128u) != 0;
    group.runs = has_runs ? from.bytes[at + 2] : 0;
    group.full = full & 127u;
    group.follow = (steps & 128u) != 0;
    group.ragged = (steps & 127u) - group.full - group.runs;
    group.rows = at + (has_runs ? 3 : 2);
    group.lanes = group.rows + (group.follow ? 1 : LANES);
    group.steps = group.lanes + group.ragged;
    return group;
}

__device__ inline u32 row_of(Bytes from, const Group &group, u32 lane)
{
    return group.follow ? from.bytes[group.rows] + lane : from.bytes[group.rows + lane];
}

// The chain of one thread; false where its lane has no element.
template <int B, int K, bool SCALED>
__device__ inline bool add_lane(Bytes from, const Group &group, Lane lane, const Window &window, double (&sums)[K])
{
    u32 filled = group.runs + group.full;
    bool has = filled > 0;
#pragma unroll 1
    for (u32 step = 0; step < filled + group.ragged; step++) {
        u32 active = step < filled ? LANES : from.bytes[group.lanes + step - filled];
        add_step<B, K, SCALED>(from, lane, active, step < group.runs, window, sums);
        has = has || lane.lane < active;
    }
    return has;
}

// --- One tile ----------------------------------------------------------------------------------------------------------------------------

// Lanes of groups that a block goes through at once, and rows of numbers of a tile: threads of a block.
#define THREADS(B) ((B) == 3 ? 288 : 256)
// None.
#define NO_ROW 0xffffu

template <int B, int K>
struct Shared {
    double sums[THREADS(B) * K];
    double lanes[THREADS(B) * K];
    u16 rows[THREADS(B)]; // of elements, of each thread's lane
    int diagonals[DIAGONALS];
    const double *parts[MOST_PARTS];
};

// Adds to the sums of its row what each lane has, in the order of lanes; a thread for each row of numbers.
template <int B, int K>
__device__ inline void add_in_order(Shared<B, K> &shared)
{
    u32 row = threadIdx.x / B, i = threadIdx.x % B;
    for (u32 first = 0; first < THREADS(B); first += LANES * B)
        for (u32 t = first + i * LANES; t < first + (i + 1) * LANES; t++)
            if (shared.rows[t] == row)
                for (int k = 0; k < K; k++)
                    shared.sums[threadIdx.x * K + k] += shared.lanes[t * K + k];
}

// The groups of a section of a tile that begins at `start`.
template <int B, int K>
__device__ inline void add_section(Bytes from, u32 start, const u32 *groups, u32 count, u32 about, Columns columns,
                                   const Window &window, Shared<B, K> &shared)
{
    const u32 each = LANES * B, at_once = THREADS(B) / each;
    Format format = format_of(about & 31u);
    double scale = times_power_of_two(1.0, (int)about >> 16);
    scale = (about & NEGATIVE) != 0 ? -scale : scale;
    u32 t = threadIdx.x;
    for (u32 first = 0; first < count; first += at_once) {
        u32 row = NO_ROW;
        double sums[K];
        for (int k = 0; k < K; k++)
            sums[k] = 0.0;
        if (first + t / each < count) {
            Group group = group_at(from, start + groups[first + t / each]);
            u32 of_tile = row_of(from, group, t % LANES), of_first = row_of(from, group, 0);
            Lane lane = {t % LANES, t % each / LANES, of_tile, of_first, group.steps, columns, format};
            // Blocks have no scaled formats.
            bool has = B == 1 && format.scaled ? add_lane<B, K, B == 1>(from, group, lane, window, sums)
                                               : add_lane<B, K, false>(from, group, lane, window, sums);
            if (has)
                row = of_tile;
        }
        if ((about & PIECES) != 0) {
            shared.rows[t] = (u16)row;
            for (int k = 0; k < K; k++)
                shared.lanes[t * K + k] = scale * sums[k];
            __syncthreads();
            add_in_order<B, K>(shared);
            __syncthreads();
        } else if (row != NO_ROW) {
            u32 i = t % each / LANES;
            for (int k = 0; k < K; k++)
                shared.sums[(row * B + i) * K + k] += scale * sums[k];
        }
    }
    __syncthreads();
}

// The rows of one tile.
template <int B, int K>
__device__ inline void multiply_tile(const u8 *panel, const u32 *guide, u32 tiles, u32 sections, int exponent, u64 first,
                                     u64 each, u32 count, double *y, Shared<B, K> &shared)
{
    const u32 *tile = guide + (u64)blockIdx.x * TILE, *of_sections = guide + ((u64)tiles + 1) * TILE;
    const u32 *groups = of_sections + ((u64)sections + 1) * SECTION;
    u64 begin = tile[0] | (u64)tile[1] << 32;
    u32 row = tile[2], rows = tile[3] * B, base = tile[4], width = tile[5], flags = tile[6];
    // There are more bytes than these before the first tile.
    u64 aligned = (begin - 4 * DIAGONALS) / 4 * 4;
    Bytes from = {panel + aligned, (const u32 *)(panel + aligned)};
    u32 start = (u32)(begin - aligned), t = threadIdx.x;
    for (int k = 0; k < K; k++)
        shared.sums[t * K + k] = 0.0;
    bool on_diagonals = (flags & ON_DIAGONALS) != 0, is_long = (flags & LONG) != 0;
    if (on_diagonals && t < DIAGONALS)
        shared.diagonals[t] = (int)four_bytes(from, start - 4 * DIAGONALS + 4 * t);
    Columns columns = {on_diagonals ? 4u : is_long ? 32u : 16u, on_diagonals ? shared.diagonals : 0};
    __syncthreads();
    Window window = {0, shared.parts, width == 0 ? 0 : (u64)base * B - first, each, count, blockIdx.y * K};
    u64 part = window.first / each, last = (window.first + (width == 0 ? 0 : (u64)width * B - 1)) / each;
    if (part == last)
        window.whole = shared.parts[part] + (window.first - part * each) * count + window.vector;
    for (u32 section = tile[7]; section < tile[TILE + 7]; section++) {
        const u32 *about = of_sections + (u64)section * SECTION;
        add_section<B, K>(from, start, groups + about[0], about[SECTION] - about[0], about[1], columns, window, shared);
    }
    if (t < rows) {
        u32 at = start + 2 * t;
        int of_row = (flags & HAS_EXPONENTS) != 0 ? (short)(from.bytes[at] | from.bytes[at + 1] << 8) : 0;
        for (int k = 0; k < K; k++)
            y[((u64)row + t) * count + window.vector + k] = times_power_of_two(shared.sums[t * K + k], exponent + of_row);
    }
}

// --- Kernels -----------------------------------------------------------------------------------------------------------------------------

// The parts of x as arguments, so that no table has to be brought to the device, and how one thread makes a table of them.
#define FOUR(X, p) X(p, 0) X(p, 1) X(p, 2) X(p, 3)
#define SIXTEEN(X, p) FOUR(X, p##0) FOUR(X, p##1) FOUR(X, p##2) FOUR(X, p##3)
#define EVERY(X) SIXTEEN(X, 0) SIXTEEN(X, 1) SIXTEEN(X, 2) SIXTEEN(X, 3)
#define PART(p, q) , const double *x##p##q
#define ENTER(p, q) shared.parts[quaternary(1##p##q)] = x##p##q;

// What the last three digits of a number stand for to base 4.
__device__ constexpr u32 quaternary(u32 digits)
{
    return digits / 100 % 10 * 16 + digits / 10 % 10 * 4 + digits % 10;
}

// exponent: what all sums are multiplied by, as a power of two. x: `each` numbers of a vector in each part (in the last what is left), from column
// `first` on. Where `asks` is not 0, nothing is done if *done is not 0. y: the rows of the panel.
#define SELL(name, B, K)                                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS(B))                                                 \
        name(const u8 *panel, const u32 *guide, u32 tiles, u32 sections, int exponent, u64 first, u64 each,  \
             u32 count, u32 asks, const double *done, double *y EVERY(PART))                                         \
    {                                                                                                        \
        __shared__ Shared<B, K> shared;                                                                      \
        if (blockIdx.x >= tiles || (asks != 0 && *done != 0.0))                                              \
            return;                                                                                          \
        if (threadIdx.x == 0) {                                                                              \
            EVERY(ENTER)                                                                                     \
        }                                                                                                    \
        multiply_tile<B, K>(panel, guide, tiles, sections, exponent, first, each, count, y, shared);        \
    }
SELL(zellige_sell_1_1, 1, 1)
SELL(zellige_sell_1_2, 1, 2)
SELL(zellige_sell_1_4, 1, 4)
SELL(zellige_sell_2_1, 2, 1)
SELL(zellige_sell_2_2, 2, 2)
SELL(zellige_sell_2_4, 2, 4)
SELL(zellige_sell_3_1, 3, 1)
SELL(zellige_sell_3_2, 3, 2)
SELL(zellige_sell_3_4, 3, 4)
SELL(zellige_sell_4_1, 4, 1)
SELL(zellige_sell_4_2, 4, 2)
SELL(zellige_sell_4_4, 4, 4)
