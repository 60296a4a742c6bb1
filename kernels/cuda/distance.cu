// Searches of a basis (zellige_kernels::distance): sums of |b - v|^p over the samples of points b and events v, the points with the smallest of them, those
// again by another power, and the answer for each event; sums of squares by a product of matrices, too, which the library multiplies.
//
// The bits are the CPU's. Sixteen points lie side by side: sample `term` of point i at (i / 16 * terms + term) * 16 + i % 16. A thread adds the samples of a
// channel one after the other and then the channels; polynomials are the same chains of fused multiply-adds.
//
// Sums: a block of threads is 64 points beside 16 events, a thread one point and four events. Samples come by 32 to shared memory: those of points, of which a
// warp reads two pieces of 64 bytes at a time, become f32 there once for all events; those of four events are one word of 16 bytes, which all lanes
// of a warp read at once. So a sample of a point is read from the cache once for 16 events (a segment of 1157 points and 10 channels has 1.9 MB, which stays there), and
// a thread's loads are two of shared memory for four terms. What is left is arithmetic: about 25 instructions a term for polynomials, four for a quarter of the bits,
// where the two loads begin to count. A segment has 19 blocks for 16 events: 64 events do not fill a large GPU, a thousand do.
//
// The best: a block of threads is one event. The key of the last point that is kept is found bit by bit, by counting, whatever their number is; 32 turns with two
// barriers each, and memory that the nearest cache holds. Points again: a thread is one of them, whose samples lie 64 bytes apart, a sector for each: what
// that costs grows with the number kept and is little beside the sums for 8, as much as a quick screen for 128. Answers: a block of threads is an event.
//
// Squares by a product: the samples of all points are written once more as one matrix in f32, for a segment of 1157 points and 10 channels 1.9 MB to read and as many to
// write, about a microsecond where memory moves 4 TB/s, beside half a million products for each event. After the library's product a block of threads is one event, as for the
// best, with as many turns; what it cannot tell apart a thread sums directly, one point, as for points again.
//
// Nothing of this was measured on a GPU.

#define SIDE 16     // points side by side
#define POINTS 64   // of a block of threads
#define EVENTS 16
#define EACH 4      // events of a thread
#define TERMS 32    // at a time
#define THREADS 256 // of every block here
#define MAGNITUDE 0x7fffffffu

// --- Samples -----------------------------------------------------------------------------------------------------------------------------

__device__ inline u64 place(u32 point, u32 term, u32 terms)
{
    return ((u64)(point / SIDE) * terms + term) * SIDE + point % SIDE;
}

// What is stored as f32 (0), i16, f16, bf16 (3).
__device__ inline float sample_at(const void *values, u32 stored, u64 at)
{
    if (stored == 0)
        return ((const float *)values)[at];
    u16 bits = ((const u16 *)values)[at];
    return stored == 1 ? (float)(short)bits : stored == 2 ? f32_from_f16(bits) : f32_from_bf16(bits);
}

// --- Powers: the functions of zellige_kernels::distance, with their constants ------------------------------------------------------------------

struct Numbers {
    float c[9];
};

// p, and p times the coefficients of the logarithm.
struct AnyPower {
    Numbers numbers;
    __device__ inline float of(float d) const
    {
        u32 x = __float_as_uint(d) & MAGNITUDE, over = x - 0x3f3504f3u;
        float e = (float)((int)over >> 23);
        float t = __uint_as_float(x - (over & 0xff800000u)) - 1.0f;
        float log2 = numbers.c[8];
        for (int k = 7; k >= 1; k--)
            log2 = fmaf(log2, t, numbers.c[k]);
        float y = fmaf(log2, t, e * numbers.c[0]);
        float shifted = y + 12582912.0f;
        float f = y - (shifted - 12582912.0f);
        float power = 0.0013276471f;
        power = fmaf(power, f, 0.009675541f);
        power = fmaf(power, f, 0.05550713f);
        power = fmaf(power, f, 0.2402212f);
        power = fmaf(power, f, 0.69314694f);
        power = fmaf(power, f, 1.0000001f);
        bool is_normal = __uint_as_float(x) >= __uint_as_float(0x00800000u);
        return is_normal ? __uint_as_float(__float_as_uint(power) + (__float_as_uint(shifted) << 23)) : 0.0f;
    }
};

// A factor and an offset of the bits.
struct BitPower {
    Numbers numbers;
    __device__ inline float of(float d) const
    {
        float bits = (float)(int)(__float_as_uint(d) & MAGNITUDE);
        return __uint_as_float((u32)(int)rintf(fmaf(bits, numbers.c[0], numbers.c[1])));
    }
};

#define POWER(name, expression)                                                                              \
    struct name {                                                                                            \
        Numbers numbers;                                                                                     \
        __device__ inline float of(float d) const                                                            \
        {                                                                                                    \
            float x = __uint_as_float(__float_as_uint(d) & MAGNITUDE);                                       \
            return expression;                                                                               \
        }                                                                                                    \
    };
POWER(QuarterBits, __uint_as_float(__float_as_uint(x) >> 2))
POWER(FourthRoot, sqrtf(sqrtf(x)))
POWER(Root, sqrtf(x))
POWER(Magnitude, x)
POWER(Square, x *x)

// --- Sums of all points --------------------------------------------------------------------------------------------------------------------

struct alignas(16) Four {
    float of[EACH];
};

struct Shared {
    float points[TERMS][POINTS];
    Four events[TERMS][EVENTS / EACH];
};

// So many samples from `begin` on, of this block's points and events.
__device__ inline void bring(const void *values, u32 stored, const float *events, u32 stride, u32 terms, u32 count, u32 begin,
                             u32 here, Shared &shared)
{
    u32 first = blockIdx.x * POINTS, event = blockIdx.y * EVENTS;
    for (u32 at = threadIdx.x; at < here * POINTS; at += THREADS) {
        u32 q = at / POINTS, i = at % POINTS;
        if (first + i < stride)
            shared.points[q][i] = sample_at(values, stored, place(first + i, begin + q, terms));
    }
    for (u32 at = threadIdx.x; at < TERMS * EVENTS; at += THREADS) {
        u32 q = at % TERMS, e = at / TERMS;
        bool is_there = q < here && event + e < count;
        shared.events[q][e / EACH].of[e % EACH] = is_there ? events[(u64)(event + e) * terms + begin + q] : 0.0f;
    }
}

template <typename Power>
__device__ inline void add_all(const Power &power, const void *values, u32 stored, const float *events, u32 stride, u32 channels,
                               u32 samples, u32 count, float *sums, Shared &shared)
{
    u32 terms = channels * samples, i = threadIdx.x % POINTS, four = threadIdx.x / POINTS, left = samples;
    float inner[EACH], total[EACH];
    for (u32 k = 0; k < EACH; k++)
        inner[k] = total[k] = 0.0f;
    for (u32 begin = 0; begin < terms; begin += TERMS) {
        u32 here = terms - begin < TERMS ? terms - begin : TERMS;
        bring(values, stored, events, stride, terms, count, begin, here, shared);
        __syncthreads();
        // The last points of a block may be none: nothing is read for them.
        for (u32 q = 0; q < here && blockIdx.x * POINTS + i < stride; q++) {
            float b = shared.points[q][i];
            Four v = shared.events[q][four];
            for (u32 k = 0; k < EACH; k++)
                inner[k] += power.of(b - v.of[k]);
            if (--left == 0) {
                for (u32 k = 0; k < EACH; k++) {
                    total[k] += inner[k];
                    inner[k] = 0.0f;
                }
                left = samples;
            }
        }
        __syncthreads();
    }
    u32 point = blockIdx.x * POINTS + i, event = blockIdx.y * EVENTS + four * EACH;
    if (point < stride)
        for (u32 k = 0; k < EACH && event + k < count; k++)
            sums[(u64)(event + k) * stride + point] = total[k];
}

#define CONSTANTS float c0, float c1, float c2, float c3, float c4, float c5, float c6, float c7, float c8
#define NUMBERS {{c0, c1, c2, c3, c4, c5, c6, c7, c8}}

// events: f32 in the unit of the samples, one after the other. sums: of `stride` points, a multiple of 16, for each event.
#define SUMS(name, Power)                                                                                    \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                    \
        name(const void *values, u32 stored, const float *events, u32 stride, u32 channels, u32 samples,     \
             u32 count, CONSTANTS, float *sums)                                                              \
    {                                                                                                        \
        __shared__ Shared shared;                                                                            \
        Power power = {NUMBERS};                                                                             \
        add_all(power, values, stored, events, stride, channels, samples, count, sums, shared);              \
    }
SUMS(zellige_distance_any, AnyPower)
SUMS(zellige_distance_bits, BitPower)
SUMS(zellige_distance_quarter, QuarterBits)
SUMS(zellige_distance_fourth_root, FourthRoot)
SUMS(zellige_distance_root, Root)
SUMS(zellige_distance_magnitude, Magnitude)
SUMS(zellige_distance_square, Square)

// --- Sums of the points that are kept -----------------------------------------------------------------------------------------------------------

// The sum of one point, with the bits that it has among all.
template <typename Power>
__device__ inline float sum_of_point(const Power &power, const void *values, u32 stored, const float *event, u32 point, u32 channels,
                                     u32 samples)
{
    u32 terms = channels * samples;
    float total = 0.0f;
    for (u32 channel = 0, term = 0; channel < channels; channel++) {
        float inner = 0.0f;
        for (u32 t = 0; t < samples; t++, term++)
            inner += power.of(sample_at(values, stored, place(point, term, terms)) - event[term]);
        total += inner;
    }
    return total;
}

template <typename Power>
__device__ inline void add_kept(const Power &power, const void *values, u32 stored, const float *events, const u32 *kept, u32 keep,
                                u32 channels, u32 samples, u32 count, float *sums)
{
    u64 at = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (at < (u64)count * keep)
        sums[at] = sum_of_point(power, values, stored, events + at / keep * channels * samples, kept[at], channels, samples);
}

// kept, sums: `keep` points for each event.
#define AGAIN(name, Power)                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                    \
        name(const void *values, u32 stored, const float *events, const u32 *kept, u32 keep, u32 channels,   \
             u32 samples, u32 count, CONSTANTS, float *sums)                                                 \
    {                                                                                                        \
        Power power = {NUMBERS};                                                                             \
        add_kept(power, values, stored, events, kept, keep, channels, samples, count, sums);                 \
    }
AGAIN(zellige_distance_again_any, AnyPower)
AGAIN(zellige_distance_again_fourth_root, FourthRoot)
AGAIN(zellige_distance_again_root, Root)
AGAIN(zellige_distance_again_magnitude, Magnitude)
AGAIN(zellige_distance_again_square, Square)

// --- The smallest sums ---------------------------------------------------------------------------------------------------------------------

// In the order of numbers; NaN comes last.
__device__ inline u32 key_of(float sum)
{
    u32 bits = __float_as_uint(sum);
    return bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
}

__device__ inline float sum_of(u32 key)
{
    return __uint_as_float(key ^ ((key >> 31) != 0 ? 0x80000000u : 0xffffffffu));
}

#define PARTS 16 // threads that join first

template <typename T>
struct Gathered {
    T of[THREADS], parts[PARTS];
};
typedef Gathered<u32> Counts;

struct Plus {
    template <typename T>
    __device__ static inline T of(T a, T b) { return a + b; }
};

struct Larger {
    template <typename T>
    __device__ static inline T of(T a, T b) { return a < b ? b : a; }
};

// Every thread's number is there for all threads, and sixteen at a time are joined.
template <typename Join, typename T>
__device__ inline void gather(T mine, Gathered<T> &all)
{
    u32 t = threadIdx.x, each = THREADS / PARTS;
    __syncthreads();
    all.of[t] = mine;
    __syncthreads();
    if (t < PARTS) {
        T joined = all.of[t * each];
        for (u32 k = 1; k < each; k++)
            joined = Join::of(joined, all.of[t * each + k]);
        all.parts[t] = joined;
    }
    __syncthreads();
}

// The numbers of all threads, joined in one order: sixteen at a time, then those.
template <typename Join, typename T>
__device__ inline T of_all(T mine, Gathered<T> &all)
{
    gather<Join>(mine, all);
    T joined = all.parts[0];
    for (u32 k = 1; k < PARTS; k++)
        joined = Join::of(joined, all.parts[k]);
    return joined;
}

// The sum of the numbers of all threads before this one.
__device__ inline u32 sum_before(u32 mine, Counts &counts)
{
    gather<Plus>(mine, counts);
    u32 t = threadIdx.x, part = t / (THREADS / PARTS), sum = 0;
    for (u32 k = 0; k < part; k++)
        sum += counts.parts[k];
    for (u32 k = part * (THREADS / PARTS); k < t; k++)
        sum += counts.of[k];
    return sum;
}

// The chunk of `count` things that is this thread's: chunks follow one another.
struct Chunk {
    u32 begin, end;
};

__device__ inline Chunk chunk_of(u32 t, u32 count)
{
    u32 each = (count + THREADS - 1) / THREADS, begin = t * each < count ? t * each : count;
    Chunk chunk = {begin, begin + each < count ? begin + each : count};
    return chunk;
}

// The smallest key that `keep` of an event's sums do not exceed, of which `mine` are this thread's to count.
__device__ inline u32 last_key(const float *sums, Chunk mine, u32 keep, Counts &counts)
{
    u32 last = 0;
    for (int bit = 31; bit >= 0; bit--) {
        u32 without = last | ((1u << bit) - 1), count = 0;
        for (u32 i = mine.begin; i < mine.end; i++)
            count += key_of(sums[i]) <= without;
        if (of_all<Plus>(count, counts) < keep)
            last |= 1u << bit;
    }
    return last;
}

// The `keep` points (not more than there are) with the smallest sums, of equal ones the lowest numbers; by number.
extern "C" __global__ void __launch_bounds__(THREADS)
    zellige_distance_best(const float *sums, u32 stride, u32 points, u32 keep, u32 *kept)
{
    __shared__ Counts counts;
    const float *of_event = sums + (u64)blockIdx.x * stride;
    Chunk mine = chunk_of(threadIdx.x, points);
    u32 last = last_key(of_event, mine, keep, counts);
    u32 below = 0, equal = 0;
    for (u32 i = mine.begin; i < mine.end; i++) {
        below += key_of(of_event[i]) < last;
        equal += key_of(of_event[i]) == last;
    }
    u32 wanted = keep - of_all<Plus>(below, counts);
    u32 smaller = sum_before(below, counts), alike = sum_before(equal, counts);
    for (u32 i = mine.begin; i < mine.end; i++) {
        u32 key = key_of(of_event[i]);
        if (key < last || (key == last && alike < wanted))
            kept[(u64)blockIdx.x * keep + smaller + (alike < wanted ? alike : wanted)] = i;
        smaller += key < last;
        alike += key == last;
    }
}

// --- Squares by products -------------------------------------------------------------------------------------------------------------------

#define INFINITE 0x7f800000u

// The samples of all points as one matrix, a column of `stride` points for each term, and the square of each point's length: a block of threads is the sixteen
// points that lie side by side; each thread adds every sixteenth term of one in f64, and these sums are added in order and rounded once.
extern "C" __global__ void __launch_bounds__(THREADS)
    zellige_distance_matrix(const void *values, u32 stored, u32 stride, u32 terms, float *matrix, float *squares)
{
    __shared__ double of[THREADS];
    u32 t = threadIdx.x, point = blockIdx.x * SIDE + t % SIDE;
    double sum = 0.0;
    // Where there are no points there is a block all the same.
    for (u32 term = t / SIDE; point < stride && term < terms; term += THREADS / SIDE) {
        float x = sample_at(values, stored, place(point, term, terms));
        matrix[(u64)term * stride + point] = x;
        sum += (double)x * x;
    }
    of[t] = sum;
    __syncthreads();
    if (t >= SIDE || point >= stride)
        return;
    sum = 0.0;
    for (u32 k = t; k < THREADS; k += SIDE)
        sum += of[k];
    squares[point] = (float)sum;
}

// zellige_kernels::distance::Margin, and the largest square of a length that it bounds.
struct Margin {
    double error, subnormal, direct, largest;
};

// What is known of a sum, of which the library knows nothing but that it is off by less than its bound.
struct Around {
    bool known;
    double low, high; // a sum below is of a point that is kept for certain, one above of none that is kept
};

// Around the last sum that is kept; `square` is that of the event's length, `most` the largest of points.
__device__ inline Around around(const Margin &margin, double last, double square, double most)
{
    double length = sqrt(square) + sqrt(most) * (1.0 + 5.9604644775390625e-8);
    double unit = length * length;
    double error = margin.error * unit + margin.subnormal * (1.0 + length);
    double apart = 2.0 * error + 3.0 * margin.direct * (last + error + square);
    Around found = {unit <= margin.largest && error <= margin.largest, last - apart, last + apart};
    return found;
}

// `sums` are -2 v b for each of `stride` points and event; they become -infinity for points that are among the `keep` (not more than there are) with the smallest direct
// sums of squares for certain, infinity for those that are not, and direct sums, with their bits, for all others: so that the best of these are those of direct sums.
extern "C" __global__ void __launch_bounds__(THREADS)
    zellige_distance_nearest(const void *values, u32 stored, const float *events, const float *squares, u32 stride, u32 points,
                             u32 channels, u32 samples, u32 keep, double error, double subnormal, double direct, double largest,
                             float *sums)
{
    __shared__ Gathered<double> lengths;
    __shared__ Counts counts;
    u32 t = threadIdx.x, terms = channels * samples;
    const float *event = events + (u64)blockIdx.x * terms;
    float *of_event = sums + (u64)blockIdx.x * stride;
    double square = 0.0, most = 0.0;
    for (u32 term = t; term < terms; term += THREADS)
        square += (double)event[term] * event[term];
    for (u32 i = t; i < points; i += THREADS) {
        of_event[i] += squares[i];
        most = Larger::of(most, (double)squares[i]);
    }
    square = of_all<Plus>(square, lengths);
    most = of_all<Larger>(most, lengths);
    double last = sum_of(last_key(of_event, chunk_of(t, points), keep, counts));
    Margin margin = {error, subnormal, direct, largest};
    Around limits = around(margin, last, square, most);
    Square power = {};
    // Points that are alike have numbers that follow one another: they are several threads'.
    for (u32 i = t; i < points; i += THREADS) {
        double sum = of_event[i];
        if (limits.known && sum < limits.low)
            of_event[i] = __uint_as_float(INFINITE | ~MAGNITUDE);
        else if (limits.known && sum > limits.high)
            of_event[i] = __uint_as_float(INFINITE);
        else
            of_event[i] = sum_of_point(power, values, stored, event, i, channels, samples);
    }
}

// --- Answers ---------------------------------------------------------------------------------------------------------------------------------

#define NONE 0xffffffffffffffffull

// The two smallest of what has been looked at: keys, and below them places.
struct Two {
    u64 first, second;
};

__device__ inline void look_at(Two &two, u64 other)
{
    if (other < two.first) {
        two.second = two.first;
        two.first = other;
    } else if (other < two.second) {
        two.second = other;
    }
}

struct Both {
    Two of[THREADS];
    u32 near[THREADS];
};

// The two smallest of all threads, in every thread.
__device__ inline Two two_of_all(Two mine, Both &both)
{
    u32 t = threadIdx.x;
    both.of[t] = mine;
    __syncthreads();
    Two two = {NONE, NONE};
    if (t < PARTS)
        for (u32 k = t; k < THREADS; k += PARTS) {
            look_at(two, both.of[k].first);
            look_at(two, both.of[k].second);
        }
    __syncthreads();
    if (t < PARTS)
        both.of[t] = two;
    __syncthreads();
    two.first = two.second = NONE;
    for (u32 k = 0; k < PARTS; k++) {
        look_at(two, both.of[k].first);
        look_at(two, both.of[k].second);
    }
    return two;
}

// What was compared for one event, and which sums are near the best.
struct Compared {
    const float *sums;
    const u32 *kept; // looked at where `listed`
    bool listed;
    double unit, most; // of a figure of merit
    float limit;       // of a sum
    __device__ inline u32 point(u32 i) const { return listed ? kept[i] : i; }
    __device__ inline bool is_near(u32 i) const { return sums[i] <= limit && sums[i] * unit <= most; }
};

__device__ inline double square_between(const float *a, const float *b)
{
    double sum = 0.0;
    for (int k = 0; k < 3; k++) {
        double d = a[k] - b[k];
        sum += d * d;
    }
    return sum;
}

// Of `count` sums (the first of `stride`) for each event, of the points `kept` where that is `listed`: the best point, its figure of merit (the sum times `unit`), the
// second or -1, how much larger that is, the root mean square distance of the points whose figures are up to `near` times the best, and `tie` where the second is the same.
extern "C" __global__ void __launch_bounds__(THREADS)
    zellige_distance_answer(const float *sums, u32 stride, u32 count, u32 listed, const u32 *kept, double unit, double near,
                            const float *positions, double tie, double *answers)
{
    __shared__ Both both;
    Compared of = {sums + (u64)blockIdx.x * stride, kept, listed != 0, unit, 0.0, 0.0f};
    if (of.listed)
        of.kept += (u64)blockIdx.x * stride;
    Chunk mine = chunk_of(threadIdx.x, count);
    Two two = {NONE, NONE};
    for (u32 i = mine.begin; i < mine.end; i++)
        look_at(two, (u64)key_of(of.sums[i]) << 32 | i);
    two = two_of_all(two, both);
    double smallest = sum_of((u32)(two.first >> 32));
    u32 best = of.point((u32)two.first);
    of.most = smallest * unit * near;
    // Of all points sums decide first, as on the CPU; of those that are kept figures of merit alone.
    of.limit = of.listed ? __uint_as_float(0x7f800000u) : (float)(smallest * near);
    u32 here = 0;
    for (u32 i = mine.begin; i < mine.end; i++)
        here += of.is_near(i);
    both.near[threadIdx.x] = here;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    double squares = 0.0;
    u32 near_by = 0;
    // In the order of the CPU: one after the other.
    for (u32 t = 0; t < THREADS; t++) {
        Chunk chunk = chunk_of(t, both.near[t] > 0 ? count : 0);
        for (u32 i = chunk.begin; i < chunk.end; i++)
            if (of.is_near(i)) {
                squares += square_between(positions + 3 * (u64)of.point(i), positions + 3 * (u64)best);
                near_by++;
            }
    }
    double *answer = answers + 6 * (u64)blockIdx.x;
    bool has_second = two.second != NONE;
    double second = sum_of((u32)(two.second >> 32)) * unit;
    answer[0] = best;
    answer[1] = smallest * unit;
    answer[2] = has_second ? (double)of.point((u32)two.second) : -1.0;
    answer[3] = has_second ? second - answer[1] : __longlong_as_double(0x7ff0000000000000ll);
    answer[4] = sqrt(squares / (near_by > 0 ? near_by : 1));
    answer[5] = answer[3] == 0.0 ? tie : 0.0;
}

// --- Events ------------------------------------------------------------------------------------------------------------------------------------

// Samples in f32, in the unit of a basis.
extern "C" __global__ void __launch_bounds__(THREADS)
    zellige_distance_narrow(const double *samples, double factor, u64 count, float *events)
{
    u64 all = (u64)gridDim.x * THREADS;
    for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < count; i += all)
        events[i] = (float)(samples[i] * factor);
}
