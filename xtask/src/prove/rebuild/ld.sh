#!/bin/bash
# Stands where the distribution's linker stood. It notes each link with its cost, and makes each of sframe-ld's a second
# time with derived frames and an index, which the command verifies. The file "mode" says which linker it is, and has options
# for what is not linked -r. With these options there is a table in place of .eh_frame, which the command compares.
#
# The log has a line for each link: a letter (L, or P for what configure and its like try), the folder, the words; all with tabs
# between. Its cost follows in a line T; for a second link, X if that failed, or V with the file that has the report. U names
# the report about a table.
TIMEFORMAT=$'T\t%U\t%S'
folder=/opt/linker
log=$folder/log
read -r mode options <$folder/mode
real=$folder/sframe-ld
[ "$mode" = gnu ] && real=$folder/gnu
kind=P previous= output= after=$mode
for word in "$@"; do
    case $previous in
    -o) output=$word kind=L ;;
    # No 32-bit machine here.
    -m) case $word in *elf32* | elf_i386) real=$folder/gnu after= options= ;; esac ;;
    esac
    case $word in
    -r | -i | -Ur | --relocatable | -melf_i386) after= options= ;;
    # The package's programs load these, and have what reads the table.
    -shared | --shared | -Bshareable) options=${options:+$options --unwind-runtime=program} ;;
    # The distribution's compiler loads what rustc gives a version script.
    --version-script=*/rustc*/list) after= options= ;;
    esac
    previous=$word
done
case ${output##*/} in conftest* | a.out | cmTC_* | sanitycheck* | testfile* | output.exe) kind=P ;; esac
words=$(printf '\t%s' "${@//$'\n'/ }")
printf '%s\t%s%s\n' $kind "$PWD" "$words" >>$log
if [ -z "$output" ]; then
    # The output is a.out, or this is only a question.
    [[ "$*" = *.o\ * ]] || options=
    exec $real "$@" $options
fi
{ time $real "$@" $options 2>&9 9>&-; } 9>&2 2>>$log
status=$?
if [ $status = 0 ] && [ $kind = L ] && [ "$after" = ours ]; then
    second=$(mktemp $folder/second/XXXXXXXX)
    if $folder/sframe-ld "$@" --sframe-from-eh-frame=all --sframe-index -o "$second" >"$second.log" 2>&1; then
        $folder/sframe verify --json "$second" >"$second.json" 2>>"$second.log"
        printf 'V\t%s\t%s\n' "$output" "$second.json" >>$log
    else
        printf 'X\t%s\t%s\n' "$output" "$second.log" >>$log
    fi
    rm -f "$second"
elif [ $status = 0 ] && [ $kind = L ] && [ -n "$options" ]; then
    second=$(mktemp $folder/second/XXXXXXXX)
    $folder/sframe unwind-table --json "$output" >"$second" 2>&1
    printf 'U\t%s\t%s\n' "$output" "$second" >>$log
fi
exit $status
