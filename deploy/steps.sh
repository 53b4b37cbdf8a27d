# What the scripts share: steps that say what they do, keep their output in a
# log, and show its end when they fail. Sourced, not run; needs REPOSITORY.

LOGS="$REPOSITORY/build/log"
mkdir -p "$LOGS"
cd "$REPOSITORY" || exit 1

# Seconds between two lines of progress where there is no terminal.
QUIET_SECONDS=5

# One line an argument.
say() { printf '%s\n' "$@"; }

# fail STEP LOG: names the step, shows the end of its log, ends the script.
fail() {
  say "" "FAILED: $1. The end of $2:" >&2
  tail -n 40 "$2" >&2
  exit 1
}

# step NAME COMMAND...: runs it silently, with its seconds.
step() {
  local name="$1" log started=$SECONDS
  log="$LOGS/$(tr -c 'a-z0-9\n' '-' <<<"${name,,}").log"
  shift
  [ -t 1 ] && printf '%s ...' "$name"
  "$@" >"$log" 2>&1 </dev/null || fail "$name" "$log"
  [ -t 1 ] && printf '\r\033[K'
  say "$name: done in $((SECONDS - started)) s"
}

# show_progress NAME: reads Ninja's lines and shows its [n/m] as a percentage,
# on one line of a terminal, else as a line every few seconds.
show_progress() {
  local name="$1" line="" done=0 all=0 started=$SECONDS said=$SECONDS text got
  while true; do
    IFS= read -r -t 1 line && got=0 || got=$?
    [ "$got" -gt 0 ] && [ "$got" -le 128 ] && break
    if [ "$got" -eq 0 ] && [[ "$line" =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
      done=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
    fi
    [ "$all" -gt 0 ] || continue
    text="$name: $((100 * done / all))% ($done of $all steps), $((SECONDS - started)) s"
    if [ -t 1 ]; then
      printf '\r\033[K%s' "$text"
    elif [ $((SECONDS - said)) -ge $QUIET_SECONDS ]; then
      said=$SECONDS
      say "$text"
    fi
  done
  [ -t 1 ] && printf '\r\033[K'
  return 0
}

# Compilers at once: one a core, as far as memory goes (a gigabyte each).
compile_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
  [ "$memory" -lt "$cores" ] && cores=$memory
  [ "$cores" -lt 1 ] && cores=1
  echo "$cores"
}

# build_within SECONDS NAME PRESET [TARGET...]: configured before. Fails, without
# ending the script, only if the time is up; 0 is without end.
build_within() {
  local seconds="$1" name="$2" preset="$3" log="$LOGS/build-$3.log" code started=$SECONDS
  shift 3
  local targets=() limit=()
  [ "$seconds" -eq 0 ] || limit=(timeout "$seconds")
  [ $# -gt 0 ] && targets=(--target "$@")
  NINJA_STATUS="[%f/%t] " "${limit[@]}" \
    cmake --build --preset "$preset" -j "$(compile_jobs)" "${targets[@]}" \
    </dev/null 2>&1 | tee "$log" | show_progress "$name"
  code=${PIPESTATUS[0]}
  [ "$code" -eq 124 ] && return 1
  [ "$code" -eq 0 ] || fail "$name" "$log"
  say "$name: done in $((SECONDS - started)) s"
}

# build NAME PRESET [TARGET...]: configures and builds.
build() {
  step "Configuring $2" cmake --preset "$2"
  build_within 0 "$@"
}
