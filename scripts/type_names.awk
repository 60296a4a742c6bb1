# Finds types of one crate that share a name: prints each as "crate Name file:line file:line ...".
# Variable: folders, the crates' folders, each followed by a space.
#
# A type is a struct, an enum, a trait or a type alias that is declared in a module; associated types and what only tests see are none: files and
# folders named tests, test, examples, benches or mock, and what follows `#[cfg(test)]` and `mod name {`. Declarations for different targets
# (`#[cfg(..)]` above them) count once.
BEGIN { count = split(folders, crates, " ") }
FNR == 1 {
    skip = FILENAME ~ /(^|\/)(tests?|examples|benches|mock)(\.rs|\/)/
    hidden = tests = conditional = 0
    crate = ""
    for (i = 1; i <= count; i++) if (index(FILENAME, crates[i] "/src/") == 1) crate = crates[i]
    if (crate == "") skip = 1
}
skip || tests { next }
{ sub(/\/\/.*/, "") }
hidden && /^ *(pub(\([a-z: ]*\))? )?mod .*\{/ { tests = 1; next }
{ hidden = /^ *#\[cfg\((.*[( ])?test[,)]/ }
/^ *#\[cfg\(/ { conditional = 1; next }
/^ *#\[/ { next }
/^(    )*(pub(\([a-z: ]*\))? )?(unsafe )?(struct|enum|trait|type) +[A-Z]/ {
    text = $0
    # What is indented belongs to a module, a function, or is an associated type of a trait.
    is_associated = text ~ /^ +(pub(\([a-z: ]*\))? )?type /
    sub(/^ *(pub(\([a-z: ]*\))? )?(unsafe )?(struct|enum|trait|type) +/, "", text)
    match(text, /^[A-Za-z0-9_]+/)
    name = substr(text, 1, RLENGTH)
    key = crate " " name
    if (!is_associated && !(conditional && (key in places) && files[key] == FILENAME)) {
        places[key] = places[key] " " FILENAME ":" FNR
        number[key]++
        files[key] = FILENAME
    }
}
NF { conditional = 0 }
END { for (key in number) if (number[key] > 1) print key places[key] }
