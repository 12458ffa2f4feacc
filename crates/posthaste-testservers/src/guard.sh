# Outlives a killed run, ends what it started and removes its folders. $1: the run's name, $2 and $3: its folders.
# A script and not our own program: the run may belong to any test binary.

# Nothing is ever written to us: this ends with the process that holds the other side of the pipe.
cat > /dev/null

# Postgres gives back its shared memory on SIGQUIT; the second round takes what did not listen.
for round in QUIT KILL; do
    found=
    for process in /proc/[0-9]*; do
        if tr '\0' '\n' 2> /dev/null < "$process/environ" | grep -q "^POSTHASTE_XTASK_RUN=.*$1"; then
            found=yes
            signal=KILL
            grep -qx postgres "$process/comm" && signal=$round
            kill -s "$signal" "${process#/proc/}"
        fi
    done
    test -z "$found" || sleep 1
done
rm -rf "$2" "$3"
