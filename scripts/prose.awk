# Counts comments that break the rules of scripts/prose: prints "fragments relative wide" and, with list=1, each place.
function note(kind, text) {
    count[kind]++
    if (list) print kind ": " FILENAME ":" FNR ": " text
}
function starts_with_pronoun(text) { return text ~ /^(What|Whose|Where|Which|How|The same)([^a-zA-Z]|$)/ }
FNR == 1 { first = ""; in_doc = fence = 0 }
{
    line = $0
    sub(/^[ \t]+/, "", line)
}
line ~ /^\/\// {
    text = line
    sub(/^\/\/[\/!]?[ \t]*/, "", text)
    if (text ~ /^(```|~~~)/) fence = !fence
    else if (!fence && text !~ /^\|/) {
        if (length($0) > 100) note("wide", text)
        if (starts_with_pronoun(text) && text !~ /^The same/) note("relative", text)
    }
    if (line ~ /^\/\/\/([^\/]|$)/ && !in_doc) { first = text; in_doc = 1 }
    next
}
line ~ /^#\[/ || attribute { attribute = line ~ /\[[^]]*$/ ? 1 : (attribute && line !~ /\]$/); next }
{
    if (in_doc && line ~ /^pub / && starts_with_pronoun(first)) note("fragment", first)
    first = ""; in_doc = fence = 0
}
END { if (!list) print count["fragment"] + 0, count["relative"] + 0, count["wide"] + 0 }
