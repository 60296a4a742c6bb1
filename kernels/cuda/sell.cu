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
// block has as many threads as a section of a full tile has rows of lanes. Groups begin anywhere, so their places come as a table (PanelIndex), and codes, which
// are not aligned, are put together of two aligned words.
//
// A thread waits for memory most of the time, so what it waits for is asked for together. A tile's bytes are asked for as soon as their place is known,
// while threads still look up where their groups are. Of a few steps (AT_ONCE) all columns are read, then all numbers of the matrix and of x, and only then
// are they multiplied, step by step in order. What a step has not got (lanes beyond `active`, steps behind the last) is read all the same, from a place that is there,
// and not added: without branches between them loads need not wait for each other.
//
// In a section whose rows have one lane each, threads add to the sums of different rows and wait for nobody. Where a row is in pieces, lanes go through
// shared memory, and each row's thread adds those of its row in order.
//
// A launch takes up to 64 panels, blockIdx.z says which: one of some thousand rows has few tiles, and a GPU holds hundreds at once.
//
// On an H200 the 12 474 tiles of a matrix of 22 million single numbers in FP64 take 147 us (cuSPARSE: 146), with 33 % of memory's rate and 60 % of the
// instructions that it can issue. Without loads that go together 200 tiles took 20 us, of which the GPU holds many more at once: the time was that of one thread.

#define LANES 8
#define MOST_PARTS 64
// Of a tile that has a list of them; each has four bytes, and the list ends where the tile begins.
#define DIAGONALS 8
// Words of the index's entries, and what is in them.
#define TILE 8
#define SECTION 2
#define LONG 1u
#define HAS_EXPONENTS 2u
#define ON_DIAGONALS 4u
// Bytes that memory hands over at once.
#define LINE 128u
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

// Bytes at any place: those of the panel from an aligned word before a tile on. There are more behind whatever is read (sell::bytes::TAIL).
struct Bytes {
    const u8 *bytes;
    const u64 *words;
};

// Two aligned words, and how many bits of them are before what is wanted.
template <class WORD>
struct Words {
    WORD first, second;
    u32 shift;
};

template <class WORD>
__device__ inline Words<WORD> words_at(Bytes from, u32 at)
{
    const WORD *words = (const WORD *)from.words + at / sizeof(WORD);
    return {words[0], words[1], at % (u32)sizeof(WORD) * 8};
}

// The word that begins there.
__device__ inline u32 joined(Words<u32> words)
{
    return (u32)((words.first | (u64)words.second << 32) >> words.shift);
}

__device__ inline u64 joined(Words<u64> words)
{
    // Of halves, as the GPU shifts them.
    bool is_late = words.shift >= 32;
    u32 low = (u32)(is_late ? words.first >> 32 : words.first), high = (u32)(is_late ? words.second >> 32 : words.second);
    u32 middle = (u32)(is_late ? words.second : words.first >> 32), shift = words.shift % 32;
    return joined(Words<u32>{low, middle, shift}) | (u64)joined(Words<u32>{middle, high, shift}) << 32;
}

// A code, first bit first, of a word that begins with it: what comes behind it is zero.
__device__ inline u64 code(u64 word, u32 bytes)
{
    return word << (64 - 8 * bytes);
}

__device__ inline u64 code(u32 word, u32 bytes)
{
    return (u64)(word << (32 - 8 * bytes)) << 32;
}

// Of a WORD that is u32 codes have up to four bytes.
template <bool SCALED, class WORD>
__device__ inline double decoded(u64 code, Format format)
{
    if (SCALED) {
        u64 sign = format.has_sign ? 1ull << 63 : 0;
        u64 magnitude = ((code & ~sign) >> (format.has_sign ? 8 : 9)) + (1023ull << 52);
        return __longlong_as_double((long long)(magnitude | (code & sign)));
    }
    if (sizeof(WORD) == 8)
        return __longlong_as_double((long long)code);
    return (double)__uint_as_float((u32)(code >> 32));
}

// Asks for the line of an address.
__device__ inline void ask_for(const u8 *line)
{
#ifdef __CUDA_ARCH__
    asm volatile("prefetch.global.L2 [%0];" : : "l"(line));
#else
    (void)line;
#endif
}

// --- Where x is --------------------------------------------------------------------------------------------------------------------------

// What a tile reads of x: a window that begins in one part, and may go on in the next ones. Of each part it knows where the window would begin if all of it
// were there; parts begin with whole elements. Lengths are those of elements.
struct Window {
    const u64 *parts;    // addresses for the first part, and for those behind it
    u64 one;             // that for the first one
    u32 start;           // where the window begins in it
    u32 each, two;       // lengths of one part and of two, or more than there are columns
    double of_part;      // 1 / each; only where there are more than two parts behind the first one
    u32 more;            // parts behind the first one
    u32 bytes;           // of the numbers of a column of numbers, all vectors
};

template <int B>
__device__ inline const double *place(const Window &window, u32 column)
{
    u64 begin = window.one;
    if (window.more > 0) {
        u32 at = window.start + column, part = (at >= window.each ? 1 : 0) + (at >= window.two ? 1 : 0);
        if (window.more > 2) {
            // There are at most 64 parts: the quotient is off by one at most, where it is next to a whole number.
            part = (u32)((double)at * window.of_part);
            part -= at < (u64)part * window.each ? 1 : 0;
            part += at >= (u64)(part + 1) * window.each ? 1 : 0;
        }
        begin = window.parts[part];
    }
    return (const double *)(begin + (u64)column * (B * window.bytes));
}

// --- One lane ----------------------------------------------------------------------------------------------------------------------------

// How a tile's columns are written: with so many bits for each lane of a step, or for the first one of a run. Those of 4 bits are numbers of diagonals.
struct Columns {
    u32 bits;
    const int *diagonals; // or 0
};

// A thread's place in its group, and where it is.
struct Lane {
    u32 lane, row;         // of the group; of the element
    u32 of_tile, of_first; // the row of elements in the tile, of this lane and of the first one
    Columns columns;
    Format format;
};

// What comes before the steps of a group.
struct Group {
    u32 runs, full, ragged; // steps
    u32 lanes;              // where the numbers of lanes of ragged steps are
    u32 steps;              // where steps begin
    u32 first, row;         // rows of elements in the tile: of the first lane, and of the one asked for
};

// A group as one of its lanes needs it.
__device__ inline Group group_at(Bytes from, u32 at, u32 lane)
{
    // All but the numbers of lanes, which are read with the steps.
    u64 low = joined(words_at<u64>(from, at)), high = joined(words_at<u64>(from, at + 8));
    u32 steps = low & 255u, full = low >> 8 & 255u;
    bool has_runs = (full & 128u) != 0, follow = (steps & 128u) != 0;
    u32 rows = has_runs ? 3 : 2, row = rows + lane;
    Group group;
    group.runs = has_runs ? low >> 16 & 255u : 0;
    group.full = full & 127u;
    group.ragged = (steps & 127u) - group.full - group.runs;
    group.lanes = at + rows + (follow ? 1 : LANES);
    group.steps = group.lanes + group.ragged;
    group.first = low >> 8 * rows & 255u;
    group.row = follow ? group.first + lane : (row < 8 ? low >> 8 * row : high >> 8 * (row - 8)) & 255u;
    return group;
}

// The columns of N steps, which begin at these places; those of a run follow the only one that is there. Of a lane without an element: any number.
template <u32 N>
__device__ inline void columns_of(Bytes from, const Lane &lane, const u32 (&steps)[N], const bool (&is_run)[N], u32 (&columns)[N])
{
    u32 bits = lane.columns.bits;
    if (bits == 4) {
        u8 diagonals[N];
#pragma unroll
        for (u32 n = 0; n < N; n++)
            diagonals[n] = from.bytes[steps[n] + (is_run[n] ? 0 : lane.lane / 2)];
#pragma unroll
        for (u32 n = 0; n < N; n++) {
            u32 diagonal = (u32)diagonals[n] >> (is_run[n] ? 0 : lane.lane % 2 * 4) & 7u;
            columns[n] = (is_run[n] ? lane.of_first + lane.lane : lane.of_tile) + (u32)lane.columns.diagonals[diagonal];
        }
        return;
    }
#pragma unroll
    for (u32 n = 0; n < N; n++)
        columns[n] = joined(words_at<u32>(from, steps[n] + (is_run[n] ? 0 : lane.lane * bits / 8)));
#pragma unroll
    for (u32 n = 0; n < N; n++)
        columns[n] = (bits == 16 ? columns[n] & 0xffffu : columns[n]) + (is_run[n] ? lane.lane : 0);
}

// How many lanes have elements in N steps from `first` on, some of which are ragged; none in those behind the last.
template <u32 N>
__device__ inline void active_lanes(Bytes from, const Group &group, u32 first, u32 (&active)[N])
{
    u32 filled = group.runs + group.full, steps = filled + group.ragged;
#pragma unroll
    for (u32 n = 0; n < N; n++)
        active[n] = from.bytes[group.lanes + (first + n < filled ? 0 : first + n - filled)];
#pragma unroll
    for (u32 n = 0; n < N; n++)
        active[n] = first + n < filled ? LANES : first + n < steps ? active[n] : 0;
}

// Steps whose loads go together.
#define AT_ONCE(B, K) ((B) * (K) == 1 ? 4 : (B) * (K) <= 4 ? 2 : 1)

// Adds some steps from `first` on, which begin at `at`; says where the next ones begin. FILLED: all lanes have elements. WORD: codes have up to
// four bytes, or more.
template <int B, int K, bool SCALED, class WORD, bool FILLED>
__device__ inline u32 add_steps(Bytes from, const Group &group, const Lane &lane, const Window &window, u32 first, u32 at, bool &has,
                                double (&sums)[K])
{
    constexpr u32 N = AT_ONCE(B, K);
    u32 active[N], begins[N], columns[N], bytes = lane.format.bytes;
    bool is_run[N];
    if (!FILLED)
        active_lanes<N>(from, group, first, active);
    Words<WORD> codes[N][B];
#pragma unroll
    for (u32 n = 0; n < N; n++) {
        active[n] = FILLED ? LANES : active[n];
        begins[n] = at;
        is_run[n] = first + n < group.runs;
        at += ((is_run[n] ? 1 : active[n]) * lane.columns.bits + 7) / 8;
        u32 there = FILLED || lane.lane < active[n] ? lane.lane : 0;
#pragma unroll
        for (u32 j = 0; j < B; j++)
            codes[n][j] = words_at<WORD>(from, at + ((j * B + lane.row) * active[n] + there) * bytes);
        at += active[n] * (B * B) * bytes;
    }
    columns_of<N>(from, lane, begins, is_run, columns);
    double x[N][B][K];
#pragma unroll
    for (u32 n = 0; n < N; n++) {
        // The window has a first column.
        const double *of_x = place<B>(window, FILLED || lane.lane < active[n] ? columns[n] : 0);
#pragma unroll
        for (u32 j = 0; j < B; j++)
#pragma unroll
            for (u32 k = 0; k < K; k++)
                x[n][j][k] = ((const double *)((const u8 *)of_x + j * window.bytes))[k];
    }
#pragma unroll
    for (u32 n = 0; n < N; n++) {
        bool is_there = FILLED || lane.lane < active[n];
        has = has || is_there;
#pragma unroll
        for (u32 j = 0; j < B; j++) {
            double a = decoded<SCALED, WORD>(code(joined(codes[n][j]), bytes), lane.format);
#pragma unroll
            for (u32 k = 0; k < K; k++)
                sums[k] = is_there ? fma(a, x[n][j][k], sums[k]) : sums[k];
        }
    }
    return at;
}

// The chain of one thread; false where its lane has no element.
template <int B, int K, bool SCALED, class WORD>
__device__ inline bool add_lane(Bytes from, const Group &group, const Lane &lane, const Window &window, double (&sums)[K])
{
    constexpr u32 N = AT_ONCE(B, K);
    u32 filled = group.runs + group.full, steps = filled + group.ragged, at = group.steps, first = 0;
    bool has = false;
#pragma unroll 1
    for (; first + N <= filled; first += N)
        at = add_steps<B, K, SCALED, WORD, true>(from, group, lane, window, first, at, has, sums);
#pragma unroll 1
    for (; first < steps; first += N)
        at = add_steps<B, K, SCALED, WORD, false>(from, group, lane, window, first, at, has, sums);
    return has;
}

// --- One tile ----------------------------------------------------------------------------------------------------------------------------

// Lanes of groups that a block goes through at once, and rows of numbers of a tile: threads of a block.
#define THREADS(B) ((B) == 3 ? 288 : 256)
// Blocks that a processor has at once, at least, which limits the registers of a thread.
#ifdef __CUDA_ARCH__
#define BOUNDS(B) __launch_bounds__(THREADS(B), (B) > 2 ? 3 : 4)
#else
#define BOUNDS(B)
#endif
// None.
#define NO_ROW 0xffffu

template <int B, int K>
struct Shared {
    double sums[THREADS(B) * K];
    double lanes[THREADS(B) * K];
    union {
        u16 each[THREADS(B) / B];
        u64 four[THREADS(B) / B / 4];
    } rows; // of elements, of each lane
    int diagonals[DIAGONALS];
    u64 parts[MOST_PARTS]; // see Window
};

// Adds to the sums of its row what each lane has, in the order of lanes; a thread for each row of numbers.
template <int B, int K>
__device__ inline void add_in_order(Shared<B, K> &shared)
{
    u32 row = threadIdx.x / B, i = threadIdx.x % B;
#pragma unroll 2
    for (u32 word = 0; word < THREADS(B) / B / 4; word++) {
        u64 rows = shared.rows.four[word];
        for (u32 n = 0; n < 4; n++, rows >>= 16) {
            if ((u32)(rows & 0xffffu) != row)
                continue;
            u32 lane = 4 * word + n, t = lane / LANES * LANES * B + i * LANES + lane % LANES;
            for (int k = 0; k < K; k++)
                shared.sums[threadIdx.x * K + k] += shared.lanes[t * K + k];
        }
    }
}

// The groups of a section of a tile that begins at `start`.
template <int B, int K>
__device__ inline void add_section(Bytes from, u32 start, const u32 *groups, u32 count, u32 about, Columns columns,
                                   const Window &window, Shared<B, K> &shared)
{
    constexpr u32 each = LANES * B, at_once = THREADS(B) / each;
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
            Group group = group_at(from, start + groups[first + t / each], t % LANES);
            Lane lane = {t % LANES, t % each / LANES, group.row, group.first, columns, format};
            // Blocks have no scaled formats.
            bool is_scaled = B == 1 && format.scaled, has;
            if (format.bytes > 4)
                has = is_scaled ? add_lane<B, K, B == 1, u64>(from, group, lane, window, sums)
                                : add_lane<B, K, false, u64>(from, group, lane, window, sums);
            else
                has = is_scaled ? add_lane<B, K, B == 1, u32>(from, group, lane, window, sums)
                                : add_lane<B, K, false, u32>(from, group, lane, window, sums);
            if (has)
                row = group.row;
        }
        if ((about & PIECES) != 0) {
            if (t % each < LANES)
                shared.rows.each[t / each * LANES + t % LANES] = (u16)row;
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

// A tile's entry of the index.
struct Tile {
    u64 begin, next; // where its bytes begin, and those of the one behind it: 0 for the last
    u32 row, rows;   // the first one in the panel, of numbers; how many, of numbers
    u32 flags, sections, sections_end;
    u32 of_panel;    // sections of all its tiles
    u64 start;       // where its window begins in its first part of x, in numbers of one vector
    u32 part, more;  // that part, and how many follow that it needs, too
};

__device__ inline u32 at_most_u32(u64 length)
{
    return length < 0xffffffffull ? (u32)length : 0xffffffffu;
}

// A quotient; one of 64 bits takes more than a hundred instructions.
__device__ inline u64 quotient(u64 a, u64 b)
{
    return ((a | b) >> 32) == 0 ? (u32)a / (u32)b : a / b;
}

__device__ inline Tile tile_at(const u32 *index, u32 tiles, u32 edge, u64 first, u64 each)
{
    const u32 *entry = index + (u64)blockIdx.x * TILE;
    u32 base = entry[4], width = entry[5];
    Tile tile;
    tile.begin = entry[0] | (u64)entry[1] << 32;
    tile.next = entry[TILE] | (u64)entry[TILE + 1] << 32;
    tile.row = entry[2];
    tile.rows = entry[3] * edge;
    tile.flags = entry[6];
    tile.sections = entry[7];
    tile.sections_end = entry[TILE + 7];
    tile.of_panel = index[(u64)tiles * TILE + 7];
    // A tile that reads nothing may begin anywhere.
    u64 at = width == 0 ? 0 : (u64)base * edge - first, last = at + (width == 0 ? 0 : (u64)width * edge - 1);
    tile.part = (u32)quotient(at, each);
    tile.more = (u32)quotient(last, each) - tile.part;
    tile.start = at - tile.part * each;
    return tile;
}

// The rows of one tile; the parts of its window are in shared memory after the next barrier.
template <int B, int K>
__device__ inline void multiply_tile(const Tile &tile, const u8 *panel, const u32 *index, u32 tiles, int exponent, u64 each,
                                     u32 count, double *y, Shared<B, K> &shared)
{
    const u32 *of_sections = index + ((u64)tiles + 1) * TILE, *groups = of_sections + ((u64)tile.of_panel + 1) * SECTION;
    u32 flags = tile.flags, t = threadIdx.x;
    // Of a large tile the first bytes: the rest comes with its steps, many of which are on their way then.
    if (tile.next > tile.begin + t * LINE)
        ask_for(panel + tile.begin + t * LINE);
    // There are more bytes than these before the first tile.
    const u8 *before = panel + tile.begin - 4 * DIAGONALS;
    before -= (u64)before % 8;
    Bytes from = {before, (const u64 *)before};
    u32 start = (u32)(panel + tile.begin - before);
    for (int k = 0; k < K; k++)
        shared.sums[t * K + k] = 0.0;
    bool on_diagonals = (flags & ON_DIAGONALS) != 0, is_long = (flags & LONG) != 0;
    if (on_diagonals && t < DIAGONALS)
        shared.diagonals[t] = (int)joined(words_at<u32>(from, start - 4 * DIAGONALS + 4 * t));
    Columns columns = {on_diagonals ? 4u : is_long ? 32u : 16u, on_diagonals ? shared.diagonals : 0};
    __syncthreads();
    u32 elements = at_most_u32(each / B), two = at_most_u32(2 * (each / B));
    double of_part = tile.more > 2 ? 1.0 / (double)elements : 0.0;
    Window window = {shared.parts, shared.parts[0], (u32)(tile.start / B), elements, two, of_part, tile.more, 8 * count};
    for (u32 section = tile.sections; section < tile.sections_end; section++) {
        const u32 *about = of_sections + (u64)section * SECTION;
        add_section<B, K>(from, start, groups + about[0], about[SECTION] - about[0], about[1], columns, window, shared);
    }
    if (t < tile.rows) {
        u32 at = start + 2 * t;
        int of_row = (flags & HAS_EXPONENTS) != 0 ? (short)(from.bytes[at] | from.bytes[at + 1] << 8) : 0;
        double *of_y = y + ((u64)tile.row + t) * count + blockIdx.y * K;
        for (int k = 0; k < K; k++)
            of_y[k] = times_power_of_two(shared.sums[t * K + k], exponent + of_row);
    }
}

// --- Kernels -----------------------------------------------------------------------------------------------------------------------------

// Panels and the parts of x as arguments, so that no table has to be brought to the device, and how a thread finds one of them.
#define FOUR(X, p) X(p, 0) X(p, 1) X(p, 2) X(p, 3)
#define SIXTEEN(X, p) FOUR(X, p##0) FOUR(X, p##1) FOUR(X, p##2) FOUR(X, p##3)
#define EVERY(X) SIXTEEN(X, 0) SIXTEEN(X, 1) SIXTEEN(X, 2) SIXTEEN(X, 3)
#define TILES(p, q) , u32 tiles##p##q
#define EXPONENT(p, q) , int exponent##p##q
#define PANEL(p, q) , const u8 *panel##p##q
#define INDEX(p, q) , const u32 *index##p##q
#define RESULT(p, q) , double *y##p##q
#define PART(p, q) , const double *x##p##q
#define PANEL_CASE(p, q)                                                                                     \
    case quaternary(1##p##q):                                                                                \
        tiles = tiles##p##q;                                                                                 \
        exponent = exponent##p##q;                                                                           \
        panel = panel##p##q;                                                                                 \
        index = index##p##q;                                                                                 \
        y = y##p##q;                                                                                         \
        break;
#define CASE(p, q)                                                                                           \
    case quaternary(1##p##q):                                                                                \
        x = x##p##q;                                                                                         \
        break;

// What the last three digits of a number stand for to base 4.
__device__ constexpr u32 quaternary(u32 digits)
{
    return digits / 100 % 10 * 16 + digits / 10 % 10 * 4 + digits % 10;
}

// Of each panel its tiles, what all its sums are multiplied by, as a power of two, its bytes, its index, and y, its rows. x: `each` numbers of a vector
// in each part (in the last what is left), from column `first` on. Where `asks` is not 0, nothing is done if *done is not 0.
#define SELL(name, B, K)                                                                                     \
    extern "C" __global__ void BOUNDS(B)                                                                     \
        name(u64 first, u64 each, u32 count, u32 asks, const double *done EVERY(TILES) EVERY(EXPONENT)       \
                 EVERY(PANEL) EVERY(INDEX) EVERY(RESULT) EVERY(PART))                                        \
    {                                                                                                        \
        __shared__ Shared<B, K> shared;                                                                      \
        u32 tiles = 0;                                                                                       \
        int exponent = 0;                                                                                    \
        const u8 *panel = 0;                                                                                 \
        const u32 *index = 0;                                                                                \
        double *y = 0;                                                                                       \
        switch (blockIdx.z) {                                                                                \
            EVERY(PANEL_CASE)                                                                                \
        }                                                                                                    \
        if (blockIdx.x >= tiles)                                                                             \
            return;                                                                                          \
        double is_done = asks != 0 ? *done : 0.0;                                                            \
        Tile tile = tile_at(index, tiles, B, first, each);                                                   \
        if (is_done != 0.0)                                                                                  \
            return;                                                                                          \
        if (threadIdx.x <= tile.more) {                                                                      \
            const double *x = 0;                                                                             \
            switch (tile.part + threadIdx.x) {                                                               \
                EVERY(CASE)                                                                                  \
            }                                                                                                \
            shared.parts[threadIdx.x] =                                                                      \
                (u64)(x + blockIdx.y * K) + 8 * count * (tile.start - threadIdx.x * each);                   \
        }                                                                                                    \
        multiply_tile<B, K>(tile, panel, index, tiles, exponent, each, count, y, shared);                    \
    }

// A text for each edge: together they take NVRTC eight seconds.
#if EDGE == 1
SELL(zellige_sell_1_1, 1, 1)
SELL(zellige_sell_1_2, 1, 2)
SELL(zellige_sell_1_4, 1, 4)
#elif EDGE == 2
SELL(zellige_sell_2_1, 2, 1)
SELL(zellige_sell_2_2, 2, 2)
SELL(zellige_sell_2_4, 2, 4)
#elif EDGE == 3
SELL(zellige_sell_3_1, 3, 1)
SELL(zellige_sell_3_2, 3, 2)
SELL(zellige_sell_3_4, 3, 4)
#else
SELL(zellige_sell_4_1, 4, 1)
SELL(zellige_sell_4_2, 4, 2)
SELL(zellige_sell_4_4, 4, 4)
#endif
