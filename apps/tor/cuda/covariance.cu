// Any part of the covariance matrices, entry by entry; the CPU's bits (src/covariance), but for one case: separations below about a
// micrometre that are not zero go through pow(), whose last bits differ between libraries. What it gives there is below 1e-9 of the
// largest entry.
//
// The model (src/covariance/device.rs writes it) is one array of 64-bit words; the first 16 say how many of what there are and where.

typedef unsigned int u32;
typedef unsigned long long u64;

struct Model {
    u64 slopes_count, views, layers;
    u64 slopes;   // 4 words each: view, axis (0: x, 1: y), cell ix + iy (2 nssp - 1), edge point before it (the next one is behind it)
    u64 pairs;    // views x views, of the smaller and the larger view: 3 words each: scale, side of the table (0: no table), where it lies
    u64 lattices; // 2 words for each axis of each view: where its first edge point lies, how many there are
    u64 points;   // per lattice and layer: u, v of every edge point
    u64 visible;  // per view and layer
    u64 terms;    // per layer: weight, stretch
    u64 pieces;   // 7 coefficients of each piece of the structure function
    u64 constant; // per view, for slopes of one axis
    u64 noise;    // 2 words for each slope: with itself, with the same cell's slope of the other axis
    u64 outside;  // g(infinity), and the first coefficients of the two series near 0
    u64 unused[3];
};

__device__ inline double number(u64 word)
{
    return __longlong_as_double((long long)word);
}

// --- The structure function: src/turbulence.rs -------------------------------------------------------------------------------------

#define FIRST_EXPONENT (-40)
#define OCTAVES 51
#define BITS 5
#define MANTISSA 52
#define COEFFICIENTS 7
#define NU (5.0 / 6.0)

__device__ inline double g_series(double x, double a, double b)
{
    double q = x * x / 4.0, sum_a = a, sum_b = 0.0, power = 1.0;
    for (int n = 1; n < 24; n++) {
        double m = n;
        a /= (m + NU) * m;
        b /= (m - NU) * m;
        power *= q;
        double ta = a * power, tb = b * power;
        sum_a += ta;
        sum_b += tb;
        if (fabs(ta) + fabs(tb) < 1e-18 * (fabs(sum_a) + fabs(sum_b)))
            break;
    }
    return -pow(x, 2.0 * NU) * sum_a - sum_b;
}

// g(sqrt(t)), t >= 0.
__device__ inline double g_of_square(double t, const u64 *pieces, const u64 *outside)
{
    u64 bits = (u64)__double_as_longlong(t);
    u64 piece = (bits >> (MANTISSA - BITS)) - ((u64)(1023 + FIRST_EXPONENT) << BITS);
    if (piece < (OCTAVES << BITS)) {
        const u64 *words = pieces + piece * COEFFICIENTS;
        double c[COEFFICIENTS];
        for (int i = 0; i < COEFFICIENTS; i++)
            c[i] = number(words[i]);
        u64 mask = (1ull << (MANTISSA - BITS)) - 1;
        double z = number((1023ull << MANTISSA) | ((bits & mask) << BITS)) - 1.5;
        double z2 = z * z;
        return (c[0] + c[1] * z) + z2 * ((c[2] + c[3] * z) + z2 * ((c[4] + c[5] * z) + z2 * c[6]));
    }
    if (t == 0.0)
        return 0.0;
    if (t < 1.0)
        return g_series(sqrt(t), number(outside[1]), number(outside[2]));
    return number(outside[0]);
}

// --- One entry ---------------------------------------------------------------------------------------------------------------------

struct Slope {
    u64 view, axis, cell, point;
};

__device__ inline Slope slope_of(const u64 *words, const Model *model, u64 index)
{
    const u64 *at = words + model->slopes + 4 * index;
    Slope s = {at[0], at[1], at[2], at[3]};
    return s;
}

// The structure functions of all layers between two edge points, added up.
__device__ inline double between(const u64 *words, const Model *model, const Slope &r, u64 row_point, const Slope &c,
                                 u64 col_point)
{
    const u64 *row_lattice = words + model->lattices + 2 * (2 * r.view + r.axis);
    const u64 *col_lattice = words + model->lattices + 2 * (2 * c.view + c.axis);
    double sum = 0.0;
    for (u64 l = 0; l < model->layers; l++) {
        if (!words[model->visible + r.view * model->layers + l] || !words[model->visible + c.view * model->layers + l])
            continue;
        const u64 *p = words + row_lattice[0] + 2 * (l * row_lattice[1] + row_point);
        const u64 *q = words + col_lattice[0] + 2 * (l * col_lattice[1] + col_point);
        const u64 *term = words + model->terms + 2 * l;
        double du = number(p[0]) - number(q[0]), dv = number(p[1]) - number(q[1]);
        double t = (du * du + dv * dv) * number(term[1]);
        sum += number(term[0]) * g_of_square(t, words + model->pieces, words + model->outside);
    }
    return sum;
}

__device__ inline double from_table(const u64 *words, const u64 *pair, const Slope &r, const Slope &c)
{
    long long side = (long long)pair[1];
    u64 which = r.axis != c.axis ? 2 : r.axis;
    long long centre = (side - 1) / 2 * (side + 1);
    long long offset = (long long)r.cell - (long long)c.cell;
    long long place = centre + (r.view > c.view ? -offset : offset);
    return number(words[pair[2] + which * (u64)(side * side) + (u64)place]);
}

// Columns that one thread goes over: where one's sub-aperture follows the other's, half of the structure functions are those of the
// column before.
#define COLUMNS 8
#define ROWS 64

template <typename T>
__device__ inline void covariance(u32 m, u32 n, u64 row, u64 col, const u64 *words, double scale, T *out, u32 ldo)
{
    const Model *model = (const Model *)words;
    u64 i = (u64)blockIdx.x * ROWS + threadIdx.x;
    if (i >= m)
        return;
    Slope r = slope_of(words, model, row + i);
    Slope last = {~0ull, 0, 0, 0};
    double last_far = 0.0, last_cross = 0.0; // from the row's first and second point to the last column's second
    for (u64 j = (u64)blockIdx.y * COLUMNS; j < n && j < (u64)(blockIdx.y + 1) * COLUMNS; j++) {
        Slope c = slope_of(words, model, col + j);
        u64 a = r.view < c.view ? r.view : c.view, b = r.view < c.view ? c.view : r.view;
        const u64 *pair = words + model->pairs + 3 * (a * model->views + b);
        double value;
        if (pair[1] != 0) {
            value = from_table(words, pair, r, c);
        } else {
            bool follows = last.view == c.view && last.axis == c.axis && last.point + 1 == c.point;
            double near = follows ? last_far : between(words, model, r, r.point, c, c.point);
            double cross = follows ? last_cross : between(words, model, r, r.point + 1, c, c.point);
            last_far = between(words, model, r, r.point, c, c.point + 1);
            last_cross = between(words, model, r, r.point + 1, c, c.point + 1);
            last = c;
            value = number(pair[0]) * ((cross + last_far) - (last_cross + near));
        }
        bool same = r.view == c.view;
        value += same && r.axis == c.axis ? number(words[model->constant + r.view]) : 0.0;
        if (same && r.cell == c.cell)
            value += number(words[model->noise + 2 * (row + i) + (r.axis != c.axis)]);
        // Rounded as it is, then scaled by a power of two: as the CPU does.
        out[i + j * ldo] = (T)((double)(T)value * scale);
    }
}

extern "C" __global__ void zellige_covariance_f32(u32 m, u32 n, u64 row, u64 col, const u64 *__restrict__ model, double scale,
                                                  float *__restrict__ out, u32 ldo)
{
    covariance(m, n, row, col, model, scale, out, ldo);
}

extern "C" __global__ void zellige_covariance_f64(u32 m, u32 n, u64 row, u64 col, const u64 *__restrict__ model, double scale,
                                                  double *__restrict__ out, u32 ldo)
{
    covariance(m, n, row, col, model, scale, out, ldo);
}
