#!/bin/bash
# Stands where the distribution's linker stood. It notes each link with its cost, and makes each of sframe-ld's a second
# time with derived frames and an index, which the command verifies.
#
# The log has a line for each link: a letter (L, or P for what configure and its like try), the folder, the words; all with tabs
# between. Its cost follows in a line T; for a second link, X if that failed, or V with the file that has the report.
TIMEFORMAT=$'T\t%U\t%S'
folder=/opt/linker
log=$folder/log
read -r mode <$folder/mode
real=$folder/gnu
[ "$mode" = ours ] && real=$folder/sframe-ld
kind=P previous= output= again=$mode
for word in "$@"; do
    case $previous in
    -o) output=$word kind=L ;;
    # No 32-bit machine here.
    -m) case $word in *elf32* | elf_i386) real=$folder/gnu again= ;; esac ;;
    esac
    case $word in -r | -i | -Ur | --relocatable | -melf_i386) again= ;; esac
    previous=$word
done
case ${output##*/} in conftest* | a.out | cmTC_* | sanitycheck* | testfile* | output.exe) kind=P ;; esac
words=$(printf '\t%s' "${@//$'\n'/ }")
printf '%s\t%s%s\n' $kind "$PWD" "$words" >>$log
[ -z "$output" ] && exec $real "$@"
{ time $real "$@" 2>&9 9>&-; } 9>&2 2>>$log
status=$?
if [ $status = 0 ] && [ $kind = L ] && [ "$again" = ours ]; then
    second=$(mktemp $folder/second/XXXXXXXX)
    if $folder/sframe-ld "$@" --sframe-from-eh-frame=all --sframe-index -o "$second" >"$second.log" 2>&1; then
        $folder/sframe verify --json "$second" >"$second.json" 2>>"$second.log"
        printf 'V\t%s\t%s\n' "$output" "$second.json" >>$log
    else
        printf 'X\t%s\t%s\n' "$output" "$second.log" >>$log
    fi
    rm -f "$second"
fi
exit $status
