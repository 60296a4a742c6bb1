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

// What a thread brings of the hops from `first` on, of the first `site_groups` groups of eight sites.
template <class N>
__device__ inline void bring(const u8 *codes, u32 first, u32 of_sites, u32 site_groups, Four brought[])
{
    typedef SharedBy<N> S;
    for (u32 k = 0; k < S::MOST; k++) {
        u32 chunk = k * THREADS + threadIdx.x, eight = chunk / S::OF_EIGHT;
        if (chunk < S::CHUNKS && eight < site_groups) {
            const u8 *from = codes + (u64)eight * of_sites + first * (REALS * LANES * sizeof(N));
            brought[k] = read_once((const Four *)from + chunk % S::OF_EIGHT);
        }
    }
}

// All threads of a block call this. `codes` are the matrices of its first site, `site_groups` the groups of
// eight sites that there are.
template <int FORMAT, class N, class R>
__device__ inline void multiply_shared(const N *codes, u32 site_groups, const Around &around, u32 groups,
                                       const double steps[2], SharedBy<N> &shared, R y[6])
{
    typedef SharedBy<N> S;
    u32 of_sites = groups * (HOPS * REALS * LANES * sizeof(N)), eight = threadIdx.x / LANES;
    const N *own = (const N *)(shared.chunks + eight * S::PITCH) + threadIdx.x % LANES;
    Four brought[S::MOST];
    for (u32 k = 0; k < S::MOST; k++)
        brought[k] = {{0, 0, 0, 0}};
    bring<N>((const u8 *)codes, 0, of_sites, site_groups, brought);
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
            bring<N>((const u8 *)codes, first + S::AT_A_TIME, of_sites, site_groups, brought);
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
