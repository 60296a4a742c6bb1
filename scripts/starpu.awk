# The programs that an automake file of StarPU builds, one a line: name, sources, compiler flags and libraries, with tabs between
# them. -v yes="A B" names the conditions that hold, -v set="X=-fopenmp Y=-lblas" gives variables of configure.
BEGIN {
    n = split(yes, words, " ")
    for (i = 1; i <= n; i++) holds[words[i]] = 1
    n = split(set, words, ";")
    for (i = 1; i <= n; i++) {
        at = index(words[i], "=")
        value[substr(words[i], 1, at - 1)] = substr(words[i], at + 1)
    }
    depth = 0
    shown[0] = 1
}

# The value of a text in which $(NAME) stands for the value of NAME; what configure would have put in is empty.
function expand(text, turn, before, name, after) {
    for (turn = 0; turn < 100 && match(text, /\$[({][A-Za-z0-9_]+[)}]/); turn++) {
        before = substr(text, 1, RSTART - 1)
        name = substr(text, RSTART + 2, RLENGTH - 3)
        after = substr(text, RSTART + RLENGTH)
        text = before value[name] after
    }
    gsub(/@[A-Za-z0-9_]+@|\$[({][^)}]*[)}]/, " ", text)
    gsub(/[ \t]+/, " ", text)
    sub(/^ /, "", text)
    sub(/ $/, "", text)
    return text
}

/^[ \t]*#/ && text == "" { next }
{
    text = text $0
    if (sub(/\\[ \t]*$/, " ", text)) next
    line = text
    text = ""
}
line ~ /^if / {
    name = line
    sub(/^if[ \t]+/, "", name)
    sub(/[ \t].*/, "", name)
    wanted = 1
    if (sub(/^!/, "", name)) wanted = 0
    depth++
    branch[depth] = (name in holds) == wanted
    shown[depth] = shown[depth - 1] && branch[depth]
    next
}
line ~ /^else/ { shown[depth] = shown[depth - 1] && !branch[depth]; next }
line ~ /^endif/ { depth--; next }
!shown[depth] { next }
line ~ /^[A-Za-z0-9_]+[ \t]*\+?=/ {
    name = line
    sub(/[ \t]*\+?=.*/, "", name)
    more = line ~ /^[A-Za-z0-9_]+[ \t]*\+=/
    sub(/^[A-Za-z0-9_]+[ \t]*\+?=/, "", line)
    sub(/[ \t]#.*/, "", line)
    value[name] = more ? value[name] " " line : line
}

END {
    for (name in value) if (name ~ /_PROGRAMS$/) all = all " " value[name]
    n = split(expand(all), names, " ")
    for (i = 1; i <= n; i++) {
        program = names[i]
        if (program in seen || program == "loader") continue
        seen[program] = 1
        stem = program
        gsub(/[^A-Za-z0-9_]/, "_", stem)
        sources = (stem "_SOURCES") in value ? expand(value[stem "_SOURCES"]) : program ".c"
        flags = expand(value[stem "_CFLAGS"] " " value[stem "_CPPFLAGS"])
        libraries = expand(value[stem "_LDADD"] " " value[stem "_LDFLAGS"])
        print program "\t" sources "\t" flags "\t" libraries
    }
}
