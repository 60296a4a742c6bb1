#!/bin/sh
# pyquda-utils 0.10.54.post0, with numpy 2.2.6: the extents in openQCD files.
#
# openQCD's export_cnfg writes the extents N0, N1, N2, N3 and then the odd points in the order of the index
# x3 + N3 (x2 + N2 (x1 + N1 x0)): both in the order t, x, y, z. writeOpenQCDGauge writes the points in that order as well, but the
# extents as t, z, y, x, and readOpenQCDGauge undoes it. A lattice whose extents in x and z differ comes back right from PyQUDA itself;
# openQCD takes it for another lattice, on which its plaquette test fails, and PyQUDA misreads openQCD's own files of such lattices.
# A good guess was: the extents in the order of the points, 10 4 6 8 for X, Y, Z, T = 4, 6, 8, 10.
#
# Output seen:
#   extents in the file: 10 8 6 4
#   the point x = 1 of X, Y, Z, T = 4, 6, 8, 10 is odd point 24: points have z fastest, then y, x, t
#
# PyQUDA's communicator, which needs a compiler and MPI, is replaced by one of a single process. Exits with 1 where the behaviour is another.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet numpy==2.2.6
"$place/venv/bin/pip" download --quiet --no-deps --no-binary pyquda-utils --dest "$place" pyquda-utils==0.10.54.post0
tar -xzf "$place"/pyquda_utils-0.10.54.post0.tar.gz -C "$place"
mkdir "$place/stub" "$place/stub/mpi4py" "$place/stub/pyquda_comm"
cat > "$place/stub/mpi4py/__init__.py" <<'END'
class MPI:
    SUM = BXOR = None
END
cat > "$place/stub/pyquda_comm/__init__.py" <<'END'
import numpy


class One:
    def allreduce(self, value, op=None):
        return value


class Header:
    def __init__(self, name, mode):
        self.fp = open(name, mode)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.offset = self.fp.tell()
        self.fp.close()


def writeMPIFile(name, dtype, offset, shape, axes, values):
    with open(name, "r+b") as file:
        file.seek(offset)
        file.write(numpy.ascontiguousarray(values, dtype).tobytes())


initGrid = initDevice = readMPIFile = openReadHeader = None
getMPIComm, getMPIRank = One, lambda: 0
getGridCoord, getNeighbourRank = lambda: [0] * 4, lambda: [0] * 8
getSublatticeSize = list
openWriteHeader = lambda name: Header(name, "wb")
END
cd "$place"
PYTHONPATH="$place/stub:$place/pyquda_utils-0.10.54.post0" "$place/venv/bin/python" - <<'END'
import struct
import sys

import numpy
import pyquda_io

X, Y, Z, T = 4, 6, 8, 10
links = numpy.zeros((4, T, Z, Y, X, 3, 3), "<c16")
links[:] = numpy.eye(3)
links[3, 0, 0, 0, 1] = numpy.diag([-1, -1, 1])
pyquda_io.writeOpenQCDGauge("field", [X, Y, Z, T], links)
data = open("field", "rb").read()
extents = struct.unpack("<4i", data[:16])
points = numpy.frombuffer(data, "<c16", offset=24).reshape(-1, 4, 2, 3, 3)
# The link forwards in t is the first of a point.
(point,) = numpy.flatnonzero(points[:, 0, 0, 0, 0].real < 0)
print("extents in the file:", *extents)
print(f"the point x = 1 of X, Y, Z, T = {X}, {Y}, {Z}, {T} is odd point {point}: points have z fastest, then y, x, t")
sys.exit(not (extents == (T, Z, Y, X) and point == Z * Y // 2))
END
