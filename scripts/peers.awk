# The lines of scripts/bench-peers -> two tables of medians. Plain awk (mawk has no sort).

function median(key,    n, i, j, list, swap) {
    n = count[key]
    if (!n) return "-"
    for (i = 1; i <= n; i++) {
        list[i] = value[key, i]
        for (j = i; j > 1 && list[j - 1] > list[j]; j--) { swap = list[j]; list[j] = list[j - 1]; list[j - 1] = swap }
    }
    return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
}
function add(key, x) { if (x != "-" && x != "") value[key, ++count[key]] = x + 0 }
# A list of keys in the order they first appeared.
function row(table, key) { if (!((table, key) in seen)) { seen[table, key] = 1; rows[table, ++length_of[table]] = key } }
function show(x, format) { return x == "-" ? "-" : sprintf(format, x) }
# A peer's figure, and in brackets ours by it.
function beside(ours, theirs, format) {
    if (theirs == "-") return "-"
    return sprintf(format, theirs) (ours == "-" ? "" : sprintf(" (%.2f)", ours / theirs))
}

$2 == "core" { core = $3; next }
$2 == "gemm" { add("gemm " $3 " " $4, $5); next }
$2 == "cholesky" {
    # OpenBLAS and faer have no tile: their figure stands beside every tile of that n.
    key = $3 " " $4 " " $6
    if ($5 == "-") add($1 " whole " key, $7)
    else {
        key = $3 " " $4 " " $5 " " $6
        row("cholesky", key)
        add($1 " rate " key, $7); add($1 " share " key, $9); add($1 " gemm " key, $10)
    }
    next
}
NF == 5 { row("tasks", $2 " " $3); add($1 " task " $2 " " $3, $4) }

END {
    print "CPU time of the process per empty task, us, median. In brackets: zellige's time by the peer's; below 1 zellige is cheaper."
    print "The submitting thread is a worker in libgomp, oneTBB and rayon, none in zellige and StarPU. oneTBB and rayon have no data:"
    print "their edges come from the peer program. libgomp runs independent tasks at once instead of queueing them."
    printf "%-15s %7s %9s %16s %16s %16s %16s\n", "case", "workers", "zellige", "StarPU", "libgomp", "oneTBB", "rayon"
    for (i = 1; i <= length_of["tasks"]; i++) {
        key = rows["tasks", i]; split(key, part, " ")
        ours = median("zellige task " key)
        printf "%-15s %7s %9s %16s %16s %16s %16s\n", part[1], part[2], show(ours, "%.3f"), \
            beside(ours, median("starpu task " key), "%.3f"), beside(ours, median("libgomp task " key), "%.3f"), \
            beside(ours, median("tbb task " key), "%.3f"), beside(ours, median("rayon task " key), "%.3f")
    }
    print ""
    print "Cholesky, n^3/3 operations by time on the wall, GF/s, median. In brackets: zellige's rate by the peer's; above 1 zellige is faster."
    print "gemm: the tile product in the same run (StarPU: per CPU second of one worker; OpenBLAS: alone, one thread). kernels: share of time"
    print "in kernels." (core == "" ? "" : " OpenBLAS runs its kernels for " core ".")
    printf "%-4s %6s %5s %7s %8s %15s %15s %15s  %23s  %15s\n", "", "n", "tile", "workers", "zellige", "StarPU", "OpenBLAS", "faer", \
        "gemm zell/StarPU/OpenB", "kernels z/StarPU"
    for (i = 1; i <= length_of["cholesky"]; i++) {
        key = rows["cholesky", i]; split(key, part, " ")
        whole = part[1] " " part[2] " " part[4]
        ours = median("zellige rate " key)
        printf "%-4s %6s %5s %7s %8s %15s %15s %15s  %7s %7s %7s  %7s %7s\n", part[1], part[2], part[3], part[4], show(ours, "%.1f"), \
            beside(ours, median("starpu rate " key), "%.1f"), beside(ours, median("openblas whole " whole), "%.1f"), \
            beside(ours, median("faer whole " whole), "%.1f"), show(median("zellige gemm " key), "%.1f"), \
            show(median("starpu gemm " key), "%.1f"), show(median("gemm " part[1] " " part[3]), "%.1f"), \
            show(median("zellige share " key), "%.3f"), show(median("starpu share " key), "%.3f")
    }
}
