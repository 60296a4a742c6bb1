// Vector tasks of Krylov methods: linear combinations of vectors, then sums of products of two, for the rows of a part.
//
// zellige_kernels::cuda::VectorProgram writes what is done, in words:
//   an assignment   the target, and from bit 8 on how many terms follow
//   a term          the vector; from bit 8 on one more than the diagonal that it is multiplied by, 0 for none; from bit 16 on the kind of its
//                   coefficient (a constant, a number of the method, its negative), from bit 18 on which one
//   a sum           the vector x; from bit 8 on y, or CHANGE for the difference between x and what it was before; from bit 16 on which change that
//                   is; from bit 20 on the place of the sum
//
// Products and sums are not fused, and have the CPU's order (zellige_kernels::vectors): terms from left to right; row r of a grain goes to lane r % 32,
// lanes are added to lanes 16, 8, 4, 2, 1 behind; what lies behind the last 32 whole rows is added up by itself and comes last.

#define LANES 32
#define GRAINS 4 // of a block
#define THREADS (GRAINS * LANES)
#define WORDS 64
#define CONSTANTS 8
#define VECTORS 16
#define TERMS 32
#define CHANGES 2
#define CHANGE 255

struct Shared {
    u32 words[WORDS];
    double constants[CONSTANTS];
    double *vectors[VECTORS];
    double coefficients[TERMS];
    double lanes[THREADS], rest[THREADS];
};

// The coefficients of all terms, for the column whose numbers these are.
__device__ inline void resolve(Shared &s, u32 assignments, const double *numbers)
{
    u32 word = 0, term = 0;
    for (u32 a = 0; a < assignments; a++) {
        u32 terms = s.words[word++] >> 8;
        for (u32 t = 0; t < terms; t++) {
            u32 about = s.words[word++], kind = about >> 16 & 3, which = about >> 18;
            s.coefficients[term++] = kind == 0 ? s.constants[which] : kind == 1 ? numbers[which] : -numbers[which];
        }
    }
}

// All assignments for one row and column: number i of vectors.
__device__ inline void assign(const Shared &s, u32 assignments, u64 row, u64 i)
{
    u32 word = 0, term = 0;
    for (u32 a = 0; a < assignments; a++) {
        u32 head = s.words[word++], terms = head >> 8;
        double sum = 0.0;
        for (u32 t = 0; t < terms; t++) {
            u32 about = s.words[word++], diagonal = about >> 8 & 255;
            double factor = s.coefficients[term++];
            if (diagonal != 0)
                factor *= s.vectors[diagonal - 1][row];
            double product = factor * s.vectors[about & 255][i];
            sum = t == 0 ? product : sum + product;
        }
        s.vectors[head & 255][i] = sum;
    }
}

#define FOUR(X, p) X(p, 0) X(p, 1) X(p, 2) X(p, 3)
#define SIXTEEN(X, p) FOUR(X, p##0) FOUR(X, p##1) FOUR(X, p##2) FOUR(X, p##3)
#define EVERY_WORD(X) SIXTEEN(X, 0) SIXTEEN(X, 1) SIXTEEN(X, 2) SIXTEEN(X, 3)
#define EVERY_CONSTANT(X) FOUR(X, 0) FOUR(X, 1)
#define EVERY_VECTOR(X) FOUR(X, 0) FOUR(X, 1) FOUR(X, 2) FOUR(X, 3)
#define WORD(p, q) , u32 w##p##q
#define CONSTANT(p, q) , double c##p##q
#define VECTOR(p, q) , double *v##p##q
#define ENTER_WORD(p, q) shared.words[quaternary(1##p##q)] = w##p##q;
#define ENTER_CONSTANT(p, q) shared.constants[quaternary(1##p##q)] = c##p##q;
#define ENTER_VECTOR(p, q) shared.vectors[quaternary(1##p##q)] = v##p##q;

// What the last three digits of a number stand for to base 4; a leading 1 keeps them from being octal.
__device__ constexpr u32 quaternary(u32 digits)
{
    u32 leading = digits >= 1000 ? 1000 : 100;
    u32 rest = digits - leading;
    return rest / 100 * 16 + rest / 10 % 10 * 4 + rest % 10;
}

// numbers: `stride` for each column, the first of which is 0 while the method goes on, the method's own from `own` on. Nothing is done for columns for which
// number `unless - 1` is not 0. sums: [grain][column][width].
extern "C" __global__ void __launch_bounds__(THREADS)
    zellige_vectors(u32 rows, u32 columns, u32 grain, u32 stride, u32 own, u32 unless, u32 width, u32 assignments,
                    u32 dots, u32 first_dot, const double *numbers,
                    double *sums EVERY_WORD(WORD) EVERY_CONSTANT(CONSTANT) EVERY_VECTOR(VECTOR))
{
    __shared__ Shared shared;
    u32 column = blockIdx.y, t = threadIdx.x, lane = t % LANES;
    const double *of_column = numbers + (u64)column * stride;
    if (of_column[0] != 0.0 || (unless != 0 && of_column[own + unless - 1] != 0.0))
        return;
    if (t == 0) {
        EVERY_WORD(ENTER_WORD)
        EVERY_CONSTANT(ENTER_CONSTANT)
        EVERY_VECTOR(ENTER_VECTOR)
        resolve(shared, assignments, of_column + own);
    }
    __syncthreads();
    const u32 *sum_words = shared.words + first_dot;
    u64 at = (u64)blockIdx.x * GRAINS + t / LANES, begin = at * grain, end = begin + grain;
    begin = begin < rows ? begin : rows;
    end = end < rows ? end : rows;
    u64 whole = begin + (end - begin) / LANES * LANES;
    double changed[CHANGES] = {0.0, 0.0}, rest_of_change[CHANGES] = {0.0, 0.0};
    for (u64 row = begin + lane; row < end; row += LANES) {
        u64 i = row * columns + column;
        double old[CHANGES] = {0.0, 0.0};
        for (u32 d = 0; d < dots; d++)
            if ((sum_words[d] >> 8 & 255) == CHANGE)
                old[sum_words[d] >> 16 & 15] = shared.vectors[sum_words[d] & 255][i];
        assign(shared, assignments, row, i);
        for (u32 d = 0; d < dots; d++)
            if ((sum_words[d] >> 8 & 255) == CHANGE) {
                u32 k = sum_words[d] >> 16 & 15;
                double now = shared.vectors[sum_words[d] & 255][i], product = now * (now - old[k]);
                if (row < whole)
                    changed[k] += product;
                else
                    rest_of_change[k] = product;
            }
    }
    for (u32 d = 0; d < dots; d++) {
        u32 about = sum_words[d], y = about >> 8 & 255, k = about >> 16 & 15;
        double sum = 0.0, rest = 0.0;
        if (y == CHANGE) {
            sum = changed[k];
            rest = rest_of_change[k];
        } else {
            for (u64 row = begin + lane; row < end; row += LANES) {
                u64 i = row * columns + column;
                double product = shared.vectors[about & 255][i] * shared.vectors[y][i];
                if (row < whole)
                    sum += product;
                else
                    rest = product;
            }
        }
        shared.lanes[t] = sum;
        shared.rest[t] = rest;
        __syncthreads();
        for (u32 half = LANES / 2; half > 0; half /= 2) {
            if (lane < half)
                shared.lanes[t] += shared.lanes[t + half];
            __syncthreads();
        }
        if (lane == 0 && begin < end) {
            double last = -0.0;
            for (u32 l = 0; l < end - whole; l++)
                last += shared.rest[t + l];
            sums[(at * columns + column) * width + (about >> 20)] = shared.lanes[t] + last;
        }
        __syncthreads();
    }
}
