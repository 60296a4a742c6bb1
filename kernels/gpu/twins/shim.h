// Lets g++ compile a CUDA source for the host: its twin. The threads of a block are fibres, which run one at a time; __syncthreads()
// switches to the next. Between two barriers they run in an order drawn from a seed: where the order shows in the result, there is a
// race. Not covered: warp intrinsics, textures, dynamic shared memory, instructions under __CUDA_ARCH__.
#include <math.h>
#include <stdint.h>
#include <string.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __launch_bounds__(threads)
// One block runs at a time on a host thread, so a block's memory may be that thread's.
#define __shared__ static thread_local

struct dim3 {
    unsigned x, y, z;
};
static thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

template <typename To, typename From>
static inline To shim_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline unsigned __float_as_uint(float x) { return shim_bits<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return shim_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return shim_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return shim_bits<double>(x); }

static const size_t SHIM_STACK = 64 * 1024;
static void shim_fibre();

// shim_switch(from, to) keeps in `from` where it was called and goes on at `to`. swapcontext does the same on every machine, with a system call
// each time.
#if defined(__x86_64__)
typedef void **ShimPlace; // of the stack, with the registers that a call keeps on top
extern "C" __attribute__((visibility("hidden"))) void shim_switch(ShimPlace *from, ShimPlace *to);
asm(R"(
    .text
    .type shim_switch, @function
shim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq (%rsi), %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
static void shim_begin(ShimPlace *at, char *stack)
{
    ShimPlace top = reinterpret_cast<ShimPlace>((uintptr_t(stack) + SHIM_STACK) & ~uintptr_t(15));
    top[-2] = reinterpret_cast<void *>(shim_fibre); // where `ret` goes, with the stack as a call leaves it
    *at = top - 8;
}
#else
typedef ucontext_t ShimPlace;
static void shim_switch(ShimPlace *from, ShimPlace *to) { swapcontext(from, to); }
static void shim_begin(ShimPlace *at, char *stack)
{
    getcontext(at);
    at->uc_stack.ss_sp = stack;
    at->uc_stack.ss_size = SHIM_STACK;
    at->uc_link = nullptr;
    makecontext(at, shim_fibre, 0);
}
#endif

// A stack of its own. A fibre runs one thread after the other until one of them comes to a barrier: then that thread keeps it. It never ends.
struct ShimFibre {
    ShimPlace at;
    dim3 thread;
    std::unique_ptr<char[]> stack;
};

struct ShimBlock {
    void (*kernel)(void **);
    void **args;
    std::vector<unsigned> order; // of threads
    size_t begun, ended;
    std::vector<std::unique_ptr<ShimFibre>> fibres;
    std::vector<ShimFibre *> waiting; // at a barrier
    ShimFibre *now;
    dim3 *thread; // threadIdx: to find what belongs to a host thread takes a call
    ShimPlace scheduler;
};
static thread_local ShimBlock *shim_block;

// Back to the scheduler, until it resumes this fibre.
static void shim_pause(ShimBlock *block)
{
    shim_switch(&block->now->at, &block->scheduler);
}

static inline void __syncthreads()
{
    ShimBlock *block = shim_block;
    ShimFibre *me = block->now;
    me->thread = *block->thread;
    block->waiting.push_back(me);
    shim_pause(block);
}

static void shim_fibre()
{
    ShimBlock &block = *shim_block;
    for (;;) {
        while (block.begun < block.order.size()) {
            unsigned t = block.order[block.begun++];
            threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
            block.kernel(block.args);
            block.ended++;
        }
        shim_pause(&block);
    }
}

static uint64_t shim_random(uint64_t &state) // splitmix64
{
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
template <typename T>
static void shim_shuffle(std::vector<T> &order, uint64_t seed, uint64_t &state)
{
    if (seed != 0)
        for (size_t i = order.size(); i > 1; i--)
            std::swap(order[i - 1], order[shim_random(state) % i]);
}

static void shim_resume(ShimBlock &block, ShimFibre *fibre)
{
    block.now = fibre;
    shim_switch(&block.scheduler, &fibre->at);
}

// Fibre number `at` of this host thread.
static ShimFibre *shim_fibre_at(ShimBlock &block, size_t at)
{
    if (at == block.fibres.size()) {
        block.fibres.emplace_back(new ShimFibre{});
        block.fibres[at]->stack.reset(new char[SHIM_STACK]);
        shim_begin(&block.fibres[at]->at, block.fibres[at]->stack.get());
    }
    return block.fibres[at].get();
}

// Runs one block; false where some threads end while others wait at a barrier.
static bool shim_run_block(ShimBlock &block, uint64_t seed, uint64_t &state)
{
    std::iota(block.order.begin(), block.order.end(), 0u);
    shim_shuffle(block.order, seed, state);
    block.begun = block.ended = 0;
    block.waiting.clear();
    for (size_t at = 0; block.begun < block.order.size(); at++)
        shim_resume(block, shim_fibre_at(block, at));
    while (!block.waiting.empty()) {
        if (block.ended != 0) {
            block.fibres.clear(); // they stand in the middle of threads
            return false;
        }
        std::vector<ShimFibre *> met;
        met.swap(block.waiting);
        shim_shuffle(met, seed, state);
        for (ShimFibre *fibre : met) {
            *block.thread = fibre->thread;
            shim_resume(block, fibre);
        }
    }
    return true;
}

// Runs a launch: 0, or 1 for threads of a block that do not all meet at a barrier. Seed 0: everything in order.
extern "C" int shim_launch(void (*kernel)(void **), const unsigned *grid, const unsigned *threads, void **args,
                           uint64_t seed)
{
    static thread_local ShimBlock block;
    block.kernel = kernel;
    block.args = args;
    block.order.resize(size_t(threads[0]) * threads[1] * threads[2]);
    block.thread = &threadIdx;
    shim_block = &block;
    blockDim = {threads[0], threads[1], threads[2]};
    gridDim = {grid[0], grid[1], grid[2]};
    std::vector<unsigned> blocks(size_t(grid[0]) * grid[1] * grid[2]);
    std::iota(blocks.begin(), blocks.end(), 0u);
    uint64_t state = seed;
    shim_shuffle(blocks, seed, state);
    for (unsigned b : blocks) {
        blockIdx = {b % grid[0], b / grid[0] % grid[1], b / grid[0] / grid[1]};
        if (!shim_run_block(block, seed, state))
            return 1;
    }
    return 0;
}

template <typename... Args, size_t... At>
static inline void shim_call(void (*kernel)(Args...), void **args, std::index_sequence<At...>)
{
    kernel(*static_cast<std::remove_cv_t<Args> *>(args[At])...);
}
template <typename... Args>
static inline void shim_call(void (*kernel)(Args...), void **args)
{
    shim_call(kernel, args, std::index_sequence_for<Args...>());
}
// How many bytes each argument has, ended by 0: what a launch checks its own against.
template <typename... Args>
static inline const unsigned *shim_sizes(void (*)(Args...))
{
    static const unsigned sizes[] = {unsigned(sizeof(Args))..., 0};
    return sizes;
}
#define SHIM_TWIN(name)                                                                                      \
    extern "C" void twin_##name(void **args) { shim_call(name, args); }                                      \
    extern "C" const unsigned *sizes_##name() { return shim_sizes(name); }
