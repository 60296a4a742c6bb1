# The modules of one crate: reads its sources, and prints its largest cycle of modules and how many modules that has. Variables: src, the folder.
#
# A module is what stands beside lib.rs: a file with its folder. It imports another one if its code names `crate::other`. Comments do not
# count, nor does code that only tests see: files and folders named tests or mock, and what follows `#[cfg(test)]` and `mod name {`.

FNR == 1 {
    module = substr(FILENAME, length(src) + 2)
    skip = module == "lib.rs" || module ~ /(^|\/)(tests|mock)(\.rs|\/)/
    sub(/(\/|\.rs).*/, "", module)
    hidden = tests = 0
    if (!skip) modules[module]
}
skip || tests { next }
{ sub(/\/\/.*/, "") }
hidden && /^ *mod .*\{/ { tests = 1; next }
{ hidden = /^ *#\[cfg\((.*[( ])?test[,)]/ }
{
    rest = $0
    while (match(rest, /crate::[a-zA-Z_{]+/)) {
        # `pub(crate)` and `$crate` are other words.
        name = substr(rest, RSTART + 7, RLENGTH - 7)
        rest = substr(rest, RSTART + RLENGTH)
        if (name ~ /^[A-Z{]/) {
            printf "%s:%d: name the module: crate::module::%s\n", FILENAME, FNR, name
            bad = 1
        } else if (name != module) {
            reach[module, name] = edge[module, name] = 1
        }
    }
}
END {
    for (k in modules) for (i in modules) if ((i, k) in reach) for (j in modules) if ((k, j) in reach) reach[i, j] = 1
    for (i in modules) {
        size = 1
        members = i
        for (j in modules) if (j != i && (i, j) in reach && (j, i) in reach) { size++; members = members " " j }
        if (size > largest) { largest = size; cycle = members }
    }
    if (edges) {
        split(cycle, names, " ")
        for (i in names) for (j in names) if ((names[i], names[j]) in edge) print names[i], names[j]
    }
    if (bad) exit 1
    print largest, cycle
}
