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
// Numbers are real, or complex. Then each of the method's numbers and of the sums is two, the first vector of a
// sum is conjugated, and there are no diagonals. As on the CPU nothing is multiplied by imaginary parts of the
// coefficients of an assignment where all of them are zero, for 1, 2 and 4 columns.
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
#define THREADS 512 // of a block, at most: whole warps; of complex numbers half of them
#define ROWS 4      // of a thread, whose loads go together
#define WORDS 64
#define CONSTANTS 8
#define VECTORS 16
#define TERMS 32
#define CHANGES 2
#define CHANGE 255
#define SUMS 32
#define POINTERS 384 // of all parts

struct Complex {
    double re, im;
};

__device__ inline Complex operator+(Complex x, Complex y)
{
    return {x.re + y.re, x.im + y.im};
}

__device__ inline Complex operator-(Complex x, Complex y)
{
    return {x.re - y.re, x.im - y.im};
}

__device__ inline Complex operator-(Complex x)
{
    return {-x.re, -x.im};
}

// What differs between the two kinds of numbers.
template <class E>
struct Numbers;

template <>
struct Numbers<double> {
    static const u32 MOST_THREADS = THREADS;

    __device__ static inline double real(double x) { return x; }
    // What the sum of the last rows begins with.
    __device__ static inline double nothing() { return -0.0; }
    __device__ static inline bool has_imaginary(double) { return false; }
    __device__ static inline double scaled(double a, double d) { return a * d; }
    __device__ static inline double times(double a, double x, bool) { return a * x; }
    __device__ static inline double product(double x, double y) { return x * y; }
};

template <>
struct Numbers<Complex> {
    static const u32 MOST_THREADS = THREADS / 2;

    __device__ static inline Complex real(double x) { return {x, 0.0}; }
    __device__ static inline Complex nothing() { return {0.0, 0.0}; }
    __device__ static inline bool has_imaginary(Complex x) { return x.im != 0.0; }
    __device__ static inline Complex scaled(Complex a, Complex) { return a; }

    __device__ static inline Complex times(Complex a, Complex x, bool is_real)
    {
        if (is_real)
            return {a.re * x.re, a.re * x.im};
        return {a.re * x.re - a.im * x.im, a.re * x.im + a.im * x.re};
    }

    // With the conjugate of x.
    __device__ static inline Complex product(Complex x, Complex y)
    {
        return {x.re * y.re + x.im * y.im, x.re * y.im - x.im * y.re};
    }
};

template <class E>
struct Shared {
    u32 words[WORDS], terms[TERMS], count; // of terms
    double constants[CONSTANTS];
    E coefficients[TERMS];
    bool is_real[TERMS];     // of a term, that its coefficients for all columns are
    E *vectors[VECTORS + 1]; // and the sums
    E products[Numbers<E>::MOST_THREADS * ROWS], lanes[SUMS * LANES], rest[SUMS];
};

// The words of all terms, in their order; how many there are.
template <class E>
__device__ inline u32 terms_of(Shared<E> &s, u32 assignments)
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
template <class E>
__device__ inline E coefficient(const Shared<E> &s, u32 term, const double *numbers)
{
    u32 kind = term >> 16 & 3, which = term >> 18;
    const E *own = (const E *)numbers;
    return kind == 0 ? Numbers<E>::real(s.constants[which]) : kind == 1 ? own[which] : -own[which];
}

// Whether the coefficients of a term are real for all columns, whose numbers are `stride` apart.
template <class E>
__device__ inline bool has_real_coefficients(const Shared<E> &s, u32 term, const double *numbers, u32 stride,
                                             u32 columns)
{
    bool is_real = columns == 1 || columns == 2 || columns == 4;
    for (u32 c = 0; sizeof(E) > sizeof(double) && is_real && c < columns; c++)
        is_real = !Numbers<E>::has_imaginary(coefficient(s, term, numbers + (u64)c * stride));
    return is_real;
}

// Whether a number of the method's own, by which columns are left alone, is not 0.
template <class E>
__device__ inline bool is_left_alone(const double *own, u32 unless)
{
    u32 words = sizeof(E) / sizeof(double);
    for (u32 word = 0; unless != 0 && word < words; word++)
        if (own[(unless - 1) * words + word] != 0.0)
            return true;
    return false;
}

// A thread's rows of a stage, of one column: every `step`-th from `row` on.
struct Rows {
    u64 row, end;
    u32 step, columns, column;

    __device__ inline bool has(u32 q) const { return row + q * step < end; }
    __device__ inline u64 at(u32 q) const { return (row + q * step) * columns + column; }
};

// Numbers of a vector; without one where there is no row.
template <class E>
__device__ inline void load(const E *v, const Rows &rows, E (&x)[ROWS])
{
#pragma unroll
    for (u32 q = 0; q < ROWS; q++)
        x[q] = rows.has(q) ? v[rows.at(q)] : Numbers<E>::real(0.0);
}

// All assignments for a thread's rows.
template <class E>
__device__ inline void assign(const Shared<E> &s, u32 assignments, const Rows &rows)
{
    u32 word = 0, term = 0;
    const Rows of_diagonal = {rows.row, rows.end, rows.step, 1, 0};
    for (u32 a = 0; a < assignments; a++) {
        u32 head = s.words[word++], terms = head >> 8;
        bool is_real = true;
        for (u32 t = 0; t < terms; t++)
            is_real = is_real && s.is_real[term + t];
        E sum[ROWS];
#pragma unroll
        for (u32 q = 0; q < ROWS; q++)
            sum[q] = Numbers<E>::real(0.0);
        for (u32 t = 0; t < terms; t++) {
            u32 about = s.words[word++], diagonal = about >> 8 & 255;
            E factor = s.coefficients[term++], x[ROWS], d[ROWS];
            load(s.vectors[about & 255], rows, x);
            if (diagonal != 0)
                load(s.vectors[diagonal - 1], of_diagonal, d);
#pragma unroll
            for (u32 q = 0; q < ROWS; q++) {
                E scaled = diagonal != 0 ? Numbers<E>::scaled(factor, d[q]) : factor;
                E product = Numbers<E>::times(scaled, x[q], is_real);
                sum[q] = t == 0 ? product : sum[q] + product;
            }
        }
        E *target = s.vectors[head & 255];
#pragma unroll
        for (u32 q = 0; q < ROWS; q++)
            if (rows.has(q))
                target[rows.at(q)] = sum[q];
    }
}

// The products of a sum for a thread's rows.
template <class E>
__device__ inline void multiply(const Shared<E> &s, u32 about, const E (&old)[CHANGES][ROWS], const Rows &rows,
                                E (&products)[ROWS])
{
    u32 y = about >> 8 & 255, k = about >> 16 & 15;
    E a[ROWS], b[ROWS];
    load(s.vectors[about & 255], rows, a);
    if (y != CHANGE)
        load(s.vectors[y], rows, b);
#pragma unroll
    for (u32 q = 0; q < ROWS; q++)
        products[q] = Numbers<E>::product(a[q], y != CHANGE ? b[q] : a[q] - (k == 0 ? old[0][q] : old[1][q]));
}

// Adds the products of a stage of so many rows to the lanes of a sum; those that are no whole 32 come last.
template <class E>
__device__ inline void add(Shared<E> &s, u32 sum, u32 lane, u32 rows)
{
    u32 whole = rows / LANES * LANES;
    E total = s.lanes[sum * LANES + lane];
#pragma unroll 8
    for (u32 i = lane; i < whole; i += LANES)
        total = total + s.products[i];
    s.lanes[sum * LANES + lane] = total;
    if (lane == 0) {
        E rest = Numbers<E>::nothing();
        for (u32 i = whole; i < rows; i++)
            rest = rest + s.products[i];
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
#define POINTER(p, q) , void *v##p##q
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

// Everything for a grain and column, once its program is there.
template <class E>
__device__ inline void run(Shared<E> &shared, u64 begin, u64 end, u32 columns, u32 width, u32 assignments,
                           u32 dots, u32 first_dot, u32 vectors)
{
    u32 column = blockIdx.y, t = threadIdx.x, threads = blockDim.x, stage = threads * ROWS;
    const u32 *sum_words = shared.words + first_dot;
    for (u64 first = begin; first < end; first += stage) {
        Rows mine = {first + t, end, threads, columns, column};
        E old[CHANGES][ROWS];
        for (u32 d = 0; d < dots; d++)
            if ((sum_words[d] >> 8 & 255) == CHANGE) {
                const E *x = shared.vectors[sum_words[d] & 255];
                if ((sum_words[d] >> 16 & 15) == 0)
                    load(x, mine, old[0]);
                else
                    load(x, mine, old[1]);
            }
        assign(shared, assignments, mine);
        for (u32 d = 0; d < dots; d++) {
            E products[ROWS];
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
                shared.lanes[i] = shared.lanes[i] + shared.lanes[i + half];
        __syncthreads();
    }
    if (t < dots)
        shared.vectors[vectors][((u64)blockIdx.x * columns + column) * width + (sum_words[t] >> 20)] =
            shared.lanes[t * LANES] + shared.rest[t];
}

// numbers: `stride` for each column, the first of which is 0 while the method goes on, the method's own from `own`
// on. Nothing is done for columns for which number `unless - 1` is not 0. Of each part (blockIdx.z) the rows, and one
// behind the other `vectors` pointers and that to its sums, [grain][column][width].
#define VECTORS_OF(name, E)                                                                                  \
    extern "C" __global__ void __launch_bounds__(Numbers<E>::MOST_THREADS)                                   \
        name(u32 columns, u32 grain, u32 stride, u32 own, u32 unless, u32 width, u32 assignments, u32 dots,  \
             u32 first_dot, u32 vectors, const double *numbers EVERY_WORD(WORD) EVERY_CONSTANT(CONSTANT)     \
                 EVERY_PART(OF_PART) EVERY_POINTER(POINTER))                                                 \
    {                                                                                                        \
        __shared__ Shared<E> shared;                                                                         \
        u32 t = threadIdx.x, threads = blockDim.x, rows = 0;                                                 \
        switch (blockIdx.z) {                                                                                \
            EVERY_PART(ROWS_CASE)                                                                            \
        }                                                                                                    \
        u64 begin = (u64)blockIdx.x * grain, end = begin + grain;                                            \
        end = end < rows ? end : rows;                                                                       \
        if (begin >= end)                                                                                    \
            return;                                                                                          \
        const double *of_column = numbers + (u64)blockIdx.y * stride;                                        \
        if (of_column[0] != 0.0 || is_left_alone<E>(of_column + own, unless))                                \
            return;                                                                                          \
        if (t == 0) {                                                                                        \
            EVERY_WORD(ENTER_WORD)                                                                           \
            EVERY_CONSTANT(ENTER_CONSTANT)                                                                   \
            shared.count = terms_of(shared, assignments);                                                    \
        }                                                                                                    \
        /* Another warp than the first, where there is one. */                                               \
        u32 which = t >= LANES ? t - LANES : t + threads - LANES;                                            \
        if (which <= vectors) {                                                                              \
            void *pointer = 0;                                                                               \
            switch (blockIdx.z * (vectors + 1) + which) {                                                    \
                EVERY_POINTER(POINTER_CASE)                                                                  \
            }                                                                                                \
            shared.vectors[which] = (E *)pointer;                                                            \
        }                                                                                                    \
        for (u32 i = t; i < dots * LANES; i += threads)                                                      \
            shared.lanes[i] = Numbers<E>::real(0.0);                                                         \
        __syncthreads();                                                                                     \
        if (t < shared.count) {                                                                              \
            u32 term = shared.terms[t];                                                                      \
            shared.coefficients[t] = coefficient(shared, term, of_column + own);                             \
            shared.is_real[t] = has_real_coefficients(shared, term, numbers + own, stride, columns);         \
        }                                                                                                    \
        __syncthreads();                                                                                     \
        run(shared, begin, end, columns, width, assignments, dots, first_dot, vectors);                      \
    }

// A text for each kind of numbers.
#if IS_COMPLEX
VECTORS_OF(zellige_vectors_complex, Complex)
#else
VECTORS_OF(zellige_vectors, double)
#endif
