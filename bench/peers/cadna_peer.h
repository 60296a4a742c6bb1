/* What the programs that run CADNA share: numbers rounded to nearest, lines of JSON, and a quiet start.
 *
 * cadna_init leaves the processor rounding upwards until cadna_end. Data are therefore read, and results written, with the
 * mode set to nearest for that long. */
#ifndef CADNA_PEER_H
#define CADNA_PEER_H
#include <cadna.h>

#include <cfenv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

namespace peer {

class RoundToNearest {
	int before_;

public:
	RoundToNearest() : before_(std::fegetround()) { std::fesetround(FE_TONEAREST); }
	~RoundToNearest() { std::fesetround(before_); }
};

template <class R> R nearest(const char *text);
template <> inline double nearest<double>(const char *text)
{
	RoundToNearest mode;
	return std::strtod(text, nullptr);
}
template <> inline float nearest<float>(const char *text)
{
	RoundToNearest mode;
	return std::strtof(text, nullptr);
}

/* The type of the samples of a stochastic type, and its name in the lines. */
template <class S> struct Samples;
template <> struct Samples<float_st> {
	using Real = float;
	static const char *name() { return "f32"; }
};
template <> struct Samples<double_st> {
	using Real = double;
	static const char *name() { return "f64"; }
};

/* An exact number of the type, from text. */
template <class S> S exact(const char *text) { return S(nearest<typename Samples<S>::Real>(text)); }

/* JSON has no infinities: they are strings. */
inline std::string number(double value)
{
	RoundToNearest mode;
	char text[40];
	std::snprintf(text, sizeof text, std::isfinite(value) ? "%.17g" : "\"%g\"", value);
	return text;
}

/* Volatile: the compiler would otherwise move the sums out of the lines that round to nearest. */
inline double mean(double a, double b, double c)
{
	RoundToNearest mode;
	const volatile double x = a, y = b, z = c, sum = x + y + z;
	const volatile double third = sum / 3;
	return third;
}

/* The seven counters, in the order of `categories`. */
const int CATEGORIES = 7;
inline const char *category(int which)
{
	static const char *const names[CATEGORIES] = {"division", "multiplication", "power", "mathematical",
						      "branching", "intrinsic", "cancellation"};
	return names[which];
}
inline unsigned long count(int which)
{
	const unsigned long counts[CATEGORIES] = {_cadna_div_count, _cadna_mul_count, _cadna_power_count,
						  _cadna_math_count, _cadna_branching_count, _cadna_intrinsic_count,
						  _cadna_cancel_count};
	return counts[which];
}

/* CADNA from cadna_init to cadna_end, without their lines. All detections are on. */
class Session {
	std::streambuf *before_;

public:
	explicit Session(unsigned seed) : before_(std::cout.rdbuf(nullptr))
	{
		std::srand(seed);
		cadna_init(-1, 0, seed, 4);
	}
	~Session()
	{
		cadna_end();
		std::cout.rdbuf(before_);
		std::cout.clear();
	}
};

/* Text that ends in a list of JSON, separated by commas. */
inline void append(std::string &list, const std::string &item)
{
	if (!list.empty()) list += ", ";
	list += item;
}

/* COUNT seeds of CADNA from FIRST on, STEP apart, modulo 2^32. CADNA drops bits 1, 2 and 5 of a seed, so that 1 to 50 are eight sequences
 * of random bits, and seeds that differ in high bits alone begin alike. An odd step of about 2^32 / 1.618 spreads all bits. */
struct Seeds {
	unsigned first, count, step;
	explicit Seeds(const char *text)
	{
		char rest;
		if (std::sscanf(text, "%u:%u:%u%c", &first, &count, &step, &rest) != 3 || count < 1) {
			std::fprintf(stderr, "%s: seeds are FIRST:COUNT:STEP, such as 1:50:2654435769\n", text);
			std::exit(2);
		}
	}
	unsigned seed(unsigned index) const { return first + index * step; }
};

} /* namespace peer */
#endif
