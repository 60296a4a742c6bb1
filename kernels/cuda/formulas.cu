// Scalars of Krylov methods: adds up the partial sums of all parts, then runs a small program for each column.
//
// zellige_kernels::formulas has the operations and what they do; zellige_kernels::cuda::formulas writes each as a word: from bit 0 on its kind, from
// bits 5, 14 and 23 on its operands. Value k is the result of operation k.
//
// Sums have the CPU's order: part after part, grain after grain. Nothing is fused. All threads bring partial sums to
// shared memory, where one adds those of a sum one after the other: additions that wait for memory each took 0.4 us on
// an H200, and there are hundreds.

#define THREADS 128
#define OPS 256
#define CONSTANTS 16
#define PARTS 64
#define TOTALS 1024
#define STAGE 1024 // partial sums at a time

// zellige_kernels::formulas::word
#define STATE 0
#define STEPS 1
#define GOAL 2
#define LIMIT 3
#define RESIDUAL 4
#define HISTORY 5
#define REMEMBERED 128

// zellige_kernels::formulas::state
#define REACHED 1.0
#define LIMITED 2.0
#define BROKEN_DOWN 3.0
#define NOT_A_NUMBER 4.0

struct Shared {
    u32 ops[OPS];
    double constants[CONSTANTS];
    const double *parts[PARTS];
    u32 begins[PARTS + 1]; // of each part's partial sums among all
    double totals[TOTALS], staged[STAGE];
};

__device__ inline bool is_finite(double x)
{
    return x - x == 0.0;
}

__device__ inline void judge(double *words)
{
    double norm = words[RESIDUAL];
    if (!is_finite(norm))
        words[STATE] = NOT_A_NUMBER;
    else if (norm <= words[GOAL])
        words[STATE] = REACHED;
    else if (words[STEPS] >= words[LIMIT])
        words[STATE] = LIMITED;
}

__device__ inline void begin(double *words, double norm)
{
    words[RESIDUAL] = norm;
    judge(words);
}

__device__ inline void step(double *words, double norm)
{
    words[HISTORY + (u64)words[STEPS] % REMEMBERED] = norm;
    words[STEPS] += 1.0;
    begin(words, norm);
}

__device__ inline void end_unless_positive(double *words, double form)
{
    if (!is_finite(form))
        words[STATE] = NOT_A_NUMBER;
    else if (form <= 0.0)
        words[STATE] = BROKEN_DOWN;
}

__device__ inline void run(const Shared &s, u32 ops, const double *sums, double *words)
{
    double values[OPS];
    for (u32 at = 0; at < ops; at++) {
        u32 op = s.ops[at], kind = op & 31, a = op >> 5 & 511, b = op >> 14 & 511, c = op >> 23;
        double value = 0.0;
        switch (kind) {
        case 0: value = s.constants[a]; break;
        case 1: value = words[a]; break;
        case 2: value = sums[a]; break;
        case 3: value = values[a] + values[b]; break;
        case 4: value = values[a] - values[b]; break;
        case 5: value = values[a] * values[b]; break;
        case 6: value = values[a] / values[b]; break;
        case 7: value = -values[a]; break;
        case 8: value = sqrt(values[a]); break;
        case 9: value = fabs(values[a]); break;
        case 10: value = values[a] <= values[b] ? 1.0 : 0.0; break;
        case 11: value = values[a] != 0.0 ? values[b] : values[c]; break;
        case 12: words[a] = values[b]; break;
        case 13: begin(words, values[a]); break;
        case 14: step(words, values[a]); break;
        case 15: end_unless_positive(words, values[a]); break;
        }
        if (kind > 12 && words[STATE] != 0.0)
            return;
        values[at] = value;
    }
}

#define FOUR(X, p) X(p, 0) X(p, 1) X(p, 2) X(p, 3)
#define SIXTEEN(X, p) FOUR(X, p##0) FOUR(X, p##1) FOUR(X, p##2) FOUR(X, p##3)
#define SIXTY_FOUR(X, p) SIXTEEN(X, p##0) SIXTEEN(X, p##1) SIXTEEN(X, p##2) SIXTEEN(X, p##3)
#define EVERY_OP(X) SIXTY_FOUR(X, 10) SIXTY_FOUR(X, 11) SIXTY_FOUR(X, 12) SIXTY_FOUR(X, 13)
#define EVERY_CONSTANT(X) SIXTEEN(X, 1)
#define EVERY_PART(X) SIXTY_FOUR(X, 1)
#define OP(p, q) , u32 o##p##q
#define CONSTANT(p, q) , double c##p##q
#define PART(p, q) , const double *s##p##q
#define GRAINS(p, q) , u32 g##p##q
#define ENTER_OP(p, q) shared.ops[quaternary(p##q)] = o##p##q;
#define ENTER_CONSTANT(p, q) shared.constants[quaternary(p##q)] = c##p##q;
#define ENTER_PART(p, q) shared.parts[quaternary(p##q)] = s##p##q;
#define ENTER_GRAINS(p, q)                                                                                   \
    shared.begins[quaternary(p##q)] = begin;                                                                 \
    begin += g##p##q * columns * width;

// What the digits of a number behind its leading 1 stand for to base 4; the 1 keeps them from being octal.
__device__ constexpr u32 quaternary(u32 digits)
{
    return digits < 10 ? 0 : quaternary(digits / 10) * 4 + digits % 10;
}

// Partial sum `at` of all parts one behind the other.
__device__ inline double partial(const Shared &s, u32 at)
{
    u32 part = 0;
    for (u32 half = PARTS / 2; half > 0; half /= 2)
        part += s.begins[part + half] <= at ? half : 0;
    return s.parts[part][at - s.begins[part]];
}

// numbers: `stride` words for each column. sums of a part: [grain][column][width].
extern "C" __global__ void __launch_bounds__(THREADS)
    zellige_formulas(u32 columns, u32 stride, u32 width, u32 ops,
                     double *numbers EVERY_OP(OP) EVERY_CONSTANT(CONSTANT) EVERY_PART(PART) EVERY_PART(GRAINS))
{
    __shared__ Shared shared;
    u32 t = threadIdx.x;
    // Arguments come by lines of 64 bytes, for each of which a thread waits: four warps share them, and few
    // programs have more than 64 operations.
    if (t == 0) {
        SIXTY_FOUR(ENTER_OP, 10)
        if (ops > 64) {
            SIXTY_FOUR(ENTER_OP, 11)
            SIXTY_FOUR(ENTER_OP, 12)
            SIXTY_FOUR(ENTER_OP, 13)
        }
    } else if (t == 32) {
        EVERY_CONSTANT(ENTER_CONSTANT)
    } else if (t == 64) {
        EVERY_PART(ENTER_PART)
    } else if (t == 96) {
        u32 begin = 0;
        EVERY_PART(ENTER_GRAINS)
        shared.begins[PARTS] = begin;
    }
    u32 sums = columns * width;
    for (u32 i = t; i < sums; i += THREADS)
        shared.totals[i] = 0.0;
    __syncthreads();
    u32 count = sums == 0 ? 0 : shared.begins[PARTS], at_once = sums == 0 ? 0 : STAGE / sums * sums;
    for (u32 first = 0; first < count; first += at_once) {
        u32 here = count - first < at_once ? count - first : at_once;
#pragma unroll 4
        for (u32 i = t; i < here; i += THREADS)
            shared.staged[i] = partial(shared, first + i);
        __syncthreads();
        for (u32 i = t; i < sums; i += THREADS) {
            double total = shared.totals[i];
#pragma unroll 8
            for (u32 at = i; at < here; at += sums)
                total += shared.staged[at];
            shared.totals[i] = total;
        }
        __syncthreads();
    }
    for (u32 column = t; column < columns; column += THREADS) {
        double *words = numbers + (u64)column * stride;
        if (words[STATE] == 0.0)
            run(shared, ops, shared.totals + column * width, words);
    }
}
