# The modules of an application's crate: reads its sources, and prints the largest cycle of the modules at its root and the largest one of its files, each
# with its size. Variables: src, the folder.
#
# A file imports another one if its code names it or something in it by a path from `crate`, `self`, `super` or a module of its own. Names that a module
# exports for another one (`pub use`) count for that one. A file may use its own folder's `mod.rs`. Comments and tests do not count.

FNR == 1 {
    file = substr(FILENAME, length(src) + 2)
    skip = file ~ /(^|\/)tests(\.rs|\/)/
    sub(/\.rs$/, "", file)
    sub(/(^|\/)(mod|lib)$/, "", file)
    gsub(/\//, "::", file)
    file = "crate" (file == "" ? "" : "::" file)
    hidden = tests = 0
    if (!skip) text[file] = ""
}
skip || tests { next }
{ sub(/\/\/.*/, "") }
hidden && /^ *mod .*\{/ { tests = 1; next }
hidden && /^ *(pub(\([a-z]*\))? )?(use|mod) / { hidden = 0; next }
{ hidden = /^ *#\[cfg\((.*[( ])?test[,)]/ }
{ text[file] = text[file] " " $0 }

# The absolute form of a path that `file` names; "" for one of another crate.
function absolute(file, path,    at) {
    if (path ~ /^crate::/) return path
    if (path ~ /^self::/) return file substr(path, 5)
    if (path ~ /^super::/) {
        for (at = file; path ~ /^super::/; path = substr(path, 8)) sub(/::[a-z_0-9]+$/, "", at)
        return at "::" path
    }
    match(path, /^[a-zA-Z_0-9]+/)
    return ((file "::" substr(path, 1, RLENGTH)) in text) ? file "::" path : ""
}

# Adds the paths of a tree of names, `a::{b, c::{d}}`, to those of `file`.
function add(file, tree, public,    head, depth, begin, at, letter, path) {
    gsub(/ +as +[a-zA-Z_0-9]+/, "", tree)
    gsub(/[ \t]/, "", tree)
    at = index(tree, "{")
    if (!at) {
        path = absolute(file, tree)
        if (path == "") return
        paths[file] = paths[file] " " path
        sub(/.*::/, "", tree)
        if (public) exported[file "::" tree] = path
        return
    }
    head = substr(tree, 1, at - 1)
    tree = substr(tree, at + 1, length(tree) - at - 1) ","
    depth = 0
    begin = 1
    for (at = 1; at <= length(tree); at++) {
        letter = substr(tree, at, 1)
        if (letter == "{") depth++
        if (letter == "}") depth--
        if (letter == "," && !depth) {
            if (at > begin) add(file, head substr(tree, begin, at - begin), public)
            begin = at + 1
        }
    }
}

# The file that holds a path.
function holder(path, steps,    prefix, rest) {
    for (prefix = path; prefix != "crate"; sub(/::[^:]*$/, "", prefix)) {
        if (prefix in text) return prefix
        if ((prefix in exported) && steps < 9 && exported[prefix] != prefix) {
            rest = substr(path, length(prefix) + 1)
            return holder(exported[prefix] rest, steps + 1)
        }
    }
    return "crate"
}

# The largest cycle of what `reach` connects, with its size.
function largest(nodes, reach,    k, i, j, size, most, members, cycle) {
    for (k in nodes) for (i in nodes) if ((i, k) in reach) for (j in nodes) if ((k, j) in reach) reach[i, j]
    most = 1
    for (i in nodes) {
        size = 1
        members = i
        for (j in nodes) if (j != i && ((i, j) in reach) && ((j, i) in reach)) { size++; members = members " " j }
        if (size > most) { most = size; cycle = members }
    }
    gsub(/crate::/, "", cycle)
    return most (cycle == "" ? "" : " " cycle)
}

END {
    for (file in text) {
        rest = text[file]
        gsub(/pub\(in [^)]*\)/, "", rest)
        while (match(rest, /(pub(\([a-z]*\))? +)?use +[a-z_0-9A-Z]+::[^;]*;/)) {
            statement = substr(rest, RSTART, RLENGTH - 1)
            rest = substr(rest, 1, RSTART - 1) " " substr(rest, RSTART + RLENGTH)
            public = statement ~ /^pub/
            sub(/^(pub(\([a-z]*\))? +)?use +/, "", statement)
            add(file, statement, public)
        }
        while (match(rest, /[a-zA-Z_0-9$]+(::[a-zA-Z_0-9]+)+/)) {
            add(file, substr(rest, RSTART, RLENGTH), 0)
            rest = substr(rest, RSTART + RLENGTH)
        }
    }
    for (file in text) {
        if (file != "crate") {
            match(file "::", /^crate::[a-z_0-9]+/)
            own = substr(file, 1, RLENGTH)
            roots[own]
        }
        count = split(paths[file], list, " ")
        for (k = 1; k <= count; k++) {
            to = holder(list[k], 0)
            if (to == "crate" || file == "crate" || index(file "::", to "::") == 1) continue
            of_files[file, to]
            match(to, /^crate::[a-z_0-9]+/)
            other = substr(to, 1, RLENGTH)
            if (other != own) of_roots[own, other]
        }
    }
    print largest(roots, of_roots)
    print largest(text, of_files)
}
