#!/usr/bin/env python3
"""Tile low-rank forms of a reconstructor with given shares of the bytes of float32.

Each tile is a product of two thin factors: its singular values above a limit, the same for all
tiles, or the tile itself where that is smaller (the form of Ltaief and others 2021, TLR-MVM, made
here with numpy). For each share the limit is searched, and the matrix is written as OUT-SHARE.npy,
for `zellige tor eval SYSTEM --rec OUT-SHARE.npy`.

    zellige tor build SYSTEM -o R.npy
    tile_low_rank.py R.npy OUT --tile 204 --share 0.25 0.5 [--half]
"""
import argparse

import numpy as np


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("matrix")
    options.add_argument("out")
    options.add_argument("--tile", type=int, default=256, help="rows and columns of a tile")
    options.add_argument("--share", type=float, nargs="+", required=True, help="of the bytes of float32")
    options.add_argument("--half", action="store_true", help="factors in float16 instead of float32")
    options = options.parse_args()
    matrix = np.load(options.matrix).astype(np.float64)
    width = 2 if options.half else 4
    store = np.float16 if options.half else np.float32
    rows, cols = matrix.shape
    tiles = {}
    for i in range(0, rows, options.tile):
        for j in range(0, cols, options.tile):
            part = matrix[i : i + options.tile, j : j + options.tile]
            tiles[i, j] = (part, *np.linalg.svd(part, full_matrices=False))

    def rank(tile, limit):
        part, _, values, _ = tile
        kept = int(np.count_nonzero(values > limit))
        # A tile of many singular values is smaller as it is.
        return None if kept * sum(part.shape) >= part.size else kept

    def size(limit):
        kept = ((tile[0], rank(tile, limit)) for tile in tiles.values())
        return width * sum(part.size if r is None else r * sum(part.shape) for part, r in kept)

    for share in options.share:
        low, high = 0.0, float(np.linalg.norm(matrix))
        for _ in range(60):
            middle = np.sqrt(max(low, 1e-12 * high) * high)
            if size(middle) > share * 4 * matrix.size:
                low = middle
            else:
                high = middle
        built, ranks = np.zeros_like(matrix), []
        for (i, j), tile in tiles.items():
            part, left, values, right = tile
            r = rank(tile, high)
            if r is None:
                near = part.astype(store).astype(np.float64)
            else:
                # The root of a singular value goes to each factor, so that float16 keeps its range.
                root = np.sqrt(values[:r])
                near = (left[:, :r] * root).astype(store).astype(np.float64) @ (root[:, None] * right[:r]).astype(store).astype(np.float64)
            ranks.append(min(part.shape) if r is None else r)
            built[i : i + part.shape[0], j : j + part.shape[1]] = near
        name = f"{options.out}-{share:g}.npy"
        np.save(name, built)
        error = np.linalg.norm(built - matrix) / np.linalg.norm(matrix)
        print(f"{name}: {size(high) / (4 * matrix.size):.3f} of the bytes, mean rank {np.mean(ranks):.1f}, error {error:.2e} of the norm")


main()
