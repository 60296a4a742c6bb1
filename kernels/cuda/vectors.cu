// Vector tasks of Krylov methods: linear combinations of vectors, then sums of products of two, for all rows of up
// to 64 parts.
//
// zellige_kernels::cuda::VectorProgram writes what is done, in words:
//   an assignment   the target, and from bit 8 on how many terms follow
//   a term          the vector; from bit 8 on one more than the diagonal that it is multiplied by, 0 for none; from
//                   bit 16 on the kind of its coefficient (a constant, a number of the method, its negative), from
//                   bit 18 on which one
//   a sum           the vector x; from bit 8 on y, or CHANGE for the difference between x and what it was before;
//                   from bit 16 on which change that is; from bit 20 on the place of the sum
//
// Products and sums are not fused, and have the CPU's order (zellige_kernels::vectors): terms from left to right;
// row r of a grain goes to lane r % 32, lanes are added to lanes 16, 8, 4, 2, 1 behind; what lies behind the last 32
// whole rows is added up by itself and comes last.
//
// A block of threads is a grain of one part and one column. A lane adds one product after the other, so a warp has
// all sums of a grain; what takes time is waiting for memory, and that is shared by 512 threads, each with the loads
// of four rows under way. Products go to that warp through shared memory. Where a warp did all of it for 4096 rows, a
// task took 160 us on an H200, of any number of rows.

#define LANES 32
#define THREADS 512            // of a block, at most: whole warps
#define ROWS 4                 // of a thread, whose loads go together
#define STAGE (THREADS * ROWS) // rows at a time, at most
#define WORDS 64
#define CONSTANTS 8
#define VECTORS 16
#define TERMS 32
#define CHANGES 2
#define CHANGE 255
#define SUMS 32
#define POINTERS 384 // of all parts

struct Shared {
    u32 words[WORDS], terms[TERMS], count; // of terms
    double constants[CONSTANTS], coefficients[TERMS];
    double *vectors[VECTORS + 1]; // and the sums
    double products[STAGE], lanes[SUMS * LANES], rest[SUMS];
};

// The words of all terms, in their order; how many there are.
__device__ inline u32 terms_of(Shared &s, u32 assignments)
{
    u32 word = 0, count = 0;
    for (u32 a = 0; a < assignments; a++) {
        u32 terms = s.words[word++] >> 8;
        for (u32 t = 0; t < terms; t++)
            s.terms[count++] = s.words[word++];
    }
    return count;
}

// The coefficient of a term, for the column whose numbers these are.
__device__ inline double coefficient(const Shared &s, u32 term, const double *numbers)
{
    u32 kind = term >> 16 & 3, which = term >> 18;
    return kind == 0 ? s.constants[which] : kind == 1 ? numbers[which] : -numbers[which];
}

// A thread's rows of a stage, of one column: every `step`-th from `row` on.
struct Rows {
    u64 row, end;
    u32 step, columns, column;

    __device__ inline bool has(u32 q) const { return row + q * step < end; }
    __device__ inline u64 at(u32 q) const { return (row + q * step) * columns + column; }
};

// Numbers of a vector; without one where there is no row.
__device__ inline void load(const double *v, const Rows &rows, double (&x)[ROWS])
{
#pragma unroll
    for (u32 q = 0; q < ROWS; q++)
        x[q] = rows.has(q) ? v[rows.at(q)] : 0.0;
}

// All assignments for a thread's rows.
__device__ inline void assign(const Shared &s, u32 assignments, const Rows &rows)
{
    u32 word = 0, term = 0;
    const Rows of_diagonal = {rows.row, rows.end, rows.step, 1, 0};
    for (u32 a = 0; a < assignments; a++) {
        u32 head = s.words[word++], terms = head >> 8;
        double sum[ROWS] = {0.0, 0.0, 0.0, 0.0};
        for (u32 t = 0; t < terms; t++) {
            u32 about = s.words[word++], diagonal = about >> 8 & 255;
            double factor = s.coefficients[term++], x[ROWS], d[ROWS];
            load(s.vectors[about & 255], rows, x);
            if (diagonal != 0)
                load(s.vectors[diagonal - 1], of_diagonal, d);
#pragma unroll
            for (u32 q = 0; q < ROWS; q++) {
                double product = (diagonal != 0 ? factor * d[q] : factor) * x[q];
                sum[q] = t == 0 ? product : sum[q] + product;
            }
        }
        double *target = s.vectors[head & 255];
#pragma unroll
        for (u32 q = 0; q < ROWS; q++)
            if (rows.has(q))
                target[rows.at(q)] = sum[q];
    }
}

// The products of a sum for a thread's rows.
__device__ inline void multiply(const Shared &s, u32 about, const double (&old)[CHANGES][ROWS], const Rows &rows,
                                double (&products)[ROWS])
{
    u32 y = about >> 8 & 255, k = about >> 16 & 15;
    double a[ROWS], b[ROWS];
    load(s.vectors[about & 255], rows, a);
    if (y != CHANGE)
        load(s.vectors[y], rows, b);
#pragma unroll
    for (u32 q = 0; q < ROWS; q++)
        products[q] = a[q] * (y != CHANGE ? b[q] : a[q] - (k == 0 ? old[0][q] : old[1][q]));
}

// Adds the products of a stage of so many rows to the lanes of a sum; those that are no whole 32 come last.
__device__ inline void add(Shared &s, u32 sum, u32 lane, u32 rows)
{
    u32 whole = rows / LANES * LANES;
    double total = s.lanes[sum * LANES + lane];
#pragma unroll 8
    for (u32 i = lane; i < whole; i += LANES)
        total += s.products[i];
    s.lanes[sum * LANES + lane] = total;
    if (lane == 0) {
        double rest = -0.0;
        for (u32 i = whole; i < rows; i++)
            rest += s.products[i];
        s.rest[sum] = rest;
    }
}

#define FOUR(X, p) X(p, 0) X(p, 1) X(p, 2) X(p, 3)
#define SIXTEEN(X, p) FOUR(X, p##0) FOUR(X, p##1) FOUR(X, p##2) FOUR(X, p##3)
#define SIXTY_FOUR(X, p) SIXTEEN(X, p##0) SIXTEEN(X, p##1) SIXTEEN(X, p##2) SIXTEEN(X, p##3)
#define EVERY_WORD(X) SIXTY_FOUR(X, 1)
#define EVERY_PART(X) SIXTY_FOUR(X, 1)
#define EVERY_CONSTANT(X) FOUR(X, 10) FOUR(X, 11)
#define EVERY_POINTER(X)                                                                                     \
    SIXTY_FOUR(X, 100) SIXTY_FOUR(X, 101) SIXTY_FOUR(X, 102) SIXTY_FOUR(X, 103) SIXTY_FOUR(X, 110) SIXTY_FOUR(X, 111)
#define WORD(p, q) , u32 w##p##q
#define CONSTANT(p, q) , double c##p##q
#define OF_PART(p, q) , u32 r##p##q
#define POINTER(p, q) , double *v##p##q
#define ENTER_WORD(p, q) shared.words[quaternary(p##q)] = w##p##q;
#define ENTER_CONSTANT(p, q) shared.constants[quaternary(p##q)] = c##p##q;
#define ROWS_CASE(p, q)                                                                                      \
    case quaternary(p##q):                                                                                   \
        rows = r##p##q;                                                                                      \
        break;
#define POINTER_CASE(p, q)                                                                                   \
    case quaternary(p##q):                                                                                   \
        pointer = v##p##q;                                                                                   \
        break;

// What the digits of a number behind its leading 1 stand for to base 4; the 1 keeps them from being octal.
__device__ constexpr u32 quaternary(u32 digits)
{
    return digits < 10 ? 0 : quaternary(digits / 10) * 4 + digits % 10;
}

// numbers: `stride` for each column, the first of which is 0 while the method goes on, the method's own from `own`
// on. Nothing is done for columns for which number `unless - 1` is not 0. Of each part (blockIdx.z) the rows, and one
// behind the other `vectors` pointers and that to its sums, [grain][column][width].
extern "C" __global__ void __launch_bounds__(THREADS)
    zellige_vectors(u32 columns, u32 grain, u32 stride, u32 own, u32 unless, u32 width, u32 assignments, u32 dots,
                    u32 first_dot, u32 vectors, const double *numbers EVERY_WORD(WORD) EVERY_CONSTANT(CONSTANT)
                        EVERY_PART(OF_PART) EVERY_POINTER(POINTER))
{
    __shared__ Shared shared;
    u32 column = blockIdx.y, t = threadIdx.x, threads = blockDim.x, stage = threads * ROWS, rows = 0;
    switch (blockIdx.z) {
        EVERY_PART(ROWS_CASE)
    }
    u64 begin = (u64)blockIdx.x * grain, end = begin + grain;
    end = end < rows ? end : rows;
    if (begin >= end)
        return;
    const double *of_column = numbers + (u64)column * stride;
    if (of_column[0] != 0.0 || (unless != 0 && of_column[own + unless - 1] != 0.0))
        return;
    if (t == 0) {
        EVERY_WORD(ENTER_WORD)
        EVERY_CONSTANT(ENTER_CONSTANT)
        shared.count = terms_of(shared, assignments);
    }
    // Every block has a warp.
    if (t <= vectors) {
        double *pointer = 0;
        switch (blockIdx.z * (vectors + 1) + t) {
            EVERY_POINTER(POINTER_CASE)
        }
        shared.vectors[t] = pointer;
    }
    for (u32 i = t; i < dots * LANES; i += threads)
        shared.lanes[i] = 0.0;
    __syncthreads();
    if (t < shared.count)
        shared.coefficients[t] = coefficient(shared, shared.terms[t], of_column + own);
    __syncthreads();
    const u32 *sum_words = shared.words + first_dot;
    for (u64 first = begin; first < end; first += stage) {
        Rows mine = {first + t, end, threads, columns, column};
        double old[CHANGES][ROWS];
        for (u32 d = 0; d < dots; d++)
            if ((sum_words[d] >> 8 & 255) == CHANGE) {
                const double *x = shared.vectors[sum_words[d] & 255];
                if ((sum_words[d] >> 16 & 15) == 0)
                    load(x, mine, old[0]);
                else
                    load(x, mine, old[1]);
            }
        assign(shared, assignments, mine);
        for (u32 d = 0; d < dots; d++) {
            double products[ROWS];
            multiply(shared, sum_words[d], old, mine, products);
            // Those of the sum before have been added.
            __syncthreads();
#pragma unroll
            for (u32 q = 0; q < ROWS; q++)
                shared.products[q * threads + t] = products[q];
            __syncthreads();
            if (t / LANES == d % (threads / LANES))
                add(shared, d, t % LANES, end - first < stage ? (u32)(end - first) : stage);
        }
    }
    __syncthreads();
    for (u32 half = LANES / 2; half > 0; half /= 2) {
        for (u32 i = t; i < dots * LANES; i += threads)
            if (i % LANES < half)
                shared.lanes[i] += shared.lanes[i + half];
        __syncthreads();
    }
    if (t < dots)
        shared.vectors[vectors][((u64)blockIdx.x * columns + column) * width + (sum_words[t] >> 20)] =
            shared.lanes[t * LANES] + shared.rest[t];
}
