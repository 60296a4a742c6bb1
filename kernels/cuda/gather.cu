// Arrays that lie anywhere, written one behind the other.
//
// Kernels take the parts of a vector as arguments, so that no table has to be brought to the device: 64 at
// most. Vectors of more parts, or of parts of several lengths, are brought together by this one before, 64
// parts in each launch. A number is read and written once more; a product reads ten times as much of a
// matrix, or more.
//
// blockIdx.y says which array; the blocks along x share it.

#define THREADS 256

#define FOUR(X, p) X(p, 0) X(p, 1) X(p, 2) X(p, 3)
#define SIXTEEN(X, p) FOUR(X, p##0) FOUR(X, p##1) FOUR(X, p##2) FOUR(X, p##3)
#define EVERY(X) SIXTEEN(X, 0) SIXTEEN(X, 1) SIXTEEN(X, 2) SIXTEEN(X, 3)
#define ARRAY(p, q) , const u64 *array##p##q
#define BEGIN(p, q) , u64 begin##p##q
#define LENGTH(p, q) , u64 length##p##q
#define CASE(p, q)                                                                                           \
    case quaternary(1##p##q):                                                                                \
        array = array##p##q;                                                                                 \
        begin = begin##p##q;                                                                                 \
        length = length##p##q;                                                                               \
        break;

// What the last three digits of a number stand for to base 4.
__device__ constexpr u32 quaternary(u32 digits)
{
    return digits / 100 % 10 * 16 + digits / 10 % 10 * 4 + digits % 10;
}

// Of each array where it is, where its first number goes, and how many numbers it has.
extern "C" __global__ void __launch_bounds__(THREADS)
    zellige_gather(u64 *to EVERY(ARRAY) EVERY(BEGIN) EVERY(LENGTH))
{
    const u64 *array = 0;
    u64 begin = 0, length = 0;
    switch (blockIdx.y) {
        EVERY(CASE)
    }
    for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < length; i += (u64)gridDim.x * THREADS)
        to[begin + i] = array[i];
}
