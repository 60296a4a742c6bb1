# Every target does its own set-up; the work itself is in scripts/.
.PHONY: help install-starpu setup check test test-long demo demo-psa demo-lqcd seeds pages screenshots python bench-peers ao-peers cadna promise gpu portable loom sanitize mutants mpi ci

help:
	@echo "make demo         set up, build, compute a reconstructor in four precision rules, say where report and trace are"
	@echo "make demo-psa     the same for pulse shapes: simulate a crystal, search for events in all ways, compare, stream"
	@echo "make demo-lqcd    the same for lattice QCD: generate a gauge field, smear its links, compute a propagator in it"
	@echo "make seeds        every figure and table of three papers computed anew, with pages and data; FULL=1: at the sizes of the papers, for hours"
	@echo "make python       the wheel of apps/python, built and tested in a fresh virtual environment"
	@echo "make pages        every page that the command writes, in a browser: no text overlaps another or leaves its card; needs Chromium"
	@echo "make screenshots  the pictures of README.md, from the pages of make demo; needs Chromium"
	@echo "make check        format, lints, unit tests, one smoke test per crate"
	@echo "make test         set up, run every functional test, at sizes that find bugs within minutes"
	@echo "make test-long    the same at full size, with NVRTC, seeded bugs, all loom models, fuzzing, sanitizers and Python; a line per part"
	@echo "make mpi          several processes: installs an MPI library, builds with the feature mpi, runs its tests on 1, 2 and 4 ranks"
	@echo "make bench-peers  zellige beside StarPU, libgomp, oneTBB, rayon, OpenBLAS and faer, in turn in one run"
	@echo "make ao-peers     OOPAO, soapy and SPECULA, from PyPI, beside zellige tor loop on one system: Strehl ratios, frames per second, spots"
	@echo "make cadna        CADNA, built from PyPI, on the classical programs of stochastic arithmetic, random expressions and two kernels"
	@echo "make promise      PROMISE, from PyPI, beside zellige tune on three C++ programs: formats and numbers of runs"
	@echo "make gpu          on a node with an NVIDIA GPU: self-test, benchmark into bench/results/, calibration"
	@echo "make portable     the command as one file for other machines, and one archive with all that a machine with a GPU is to run (gpu-checks)"
	@echo "make loom         the models of the lock-free parts that take seconds; ZELLIGE_LOOM=all: all"
	@echo "make sanitize     tests of runtime, selftest, kernels, krylov, sparse, mpi and starpu under AddressSanitizer and LeakSanitizer; compiles everything anew"
	@echo "make mutants      seeded bugs in the memory manager and its driver, each of which fuzzing has to find"
	@echo "make install-starpu PREFIX=/where  the C interface of StarPU: headers, libraries, descriptions for pkg-config and CMake; MPI=1: with MPI"
	@echo "make ci           all that must pass before a change lands"
	@echo "make setup        only install what is missing (libhwloc-dev, a C linker)"

setup:
	@scripts/setup

check: setup
	@scripts/check

test: setup
	@scripts/test

test-long: setup
	@scripts/test-long

demo: setup
	@scripts/demo

demo-psa: setup
	@scripts/demo-psa

demo-lqcd: setup
	@scripts/demo-lqcd

seeds: setup
	@scripts/seeds

pages: setup
	@scripts/pages

screenshots: setup
	@scripts/screenshots

python: setup
	@scripts/python

install-starpu:
	@MPI="$(MPI)" scripts/install-starpu "$(PREFIX)"

mpi: setup
	@scripts/mpi

bench-peers: setup
	@scripts/bench-peers

ao-peers: setup
	@scripts/ao-peers

cadna: setup
	@scripts/cadna

promise: setup
	@scripts/promise

gpu: setup
	@scripts/gpu

portable: setup
	@scripts/portable

loom: setup
	@scripts/loom

mutants: setup
	@scripts/mutants

ci:
	@.ci/run

.PHONY: sanitize
sanitize:
	@scripts/sanitize
