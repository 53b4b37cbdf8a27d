#!/usr/bin/env bash
# Installs what the tests need, builds everything, runs every test. Ends with
# ctest's own summary and its exit code.
#   bash tests/run.sh [--sanitizers]
# --sanitizers: also the parsers under AddressSanitizer and libFuzzer, and the
# threads under ThreadSanitizer, as far as the time allows; one summary for all.
set -u
REPOSITORY="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
. "$REPOSITORY/deploy/steps.sh"

sanitizers=no
case "${1:-}" in
  "") ;;
  --sanitizers) sanitizers=yes ;;
  *)
    say "run.sh: the argument is $1; must be --sanitizers, or none" >&2
    exit 2
    ;;
esac

# A sanitizer's build begins only this early, and is given up this late, so
# that the whole stays below 40 minutes on 2 cores.
LATEST_START_SECONDS=1680
LATEST_END_SECONDS=1950

# How long each fuzz target runs.
FUZZ_SECONDS=20

bash "$REPOSITORY/deploy/install_packages.sh" tests || exit 1
build "Building everything" release

# ctest's list of what is to run: the release build's, and each sanitizer's.
EVERYTHING="$REPOSITORY/build/everything"
mkdir -p "$EVERYTHING"
echo "subdirs(\"$REPOSITORY/build/release\")" >"$EVERYTHING/CTestTestfile.cmake"

# begin PRESET: whether there is time left for its build; configures it.
begin() {
  if [ "$SECONDS" -gt "$LATEST_START_SECONDS" ]; then
    say "Leaving out $1: $SECONDS s have passed, and it begins within $LATEST_START_SECONDS s or not at all"
    return 1
  fi
  say "$1: begins after $SECONDS s, ends within $LATEST_END_SECONDS s or is left out"
  step "Configuring $1" cmake --preset "$1"
}

# build_in_time PRESET [TARGET...]
build_in_time() {
  build_within $((LATEST_END_SECONDS - SECONDS)) "Building $1" "$@" || {
    say "Leaving out $1: its build is not done within $LATEST_END_SECONDS s"
    return 1
  }
}

# sanitize PRESET PATTERN: builds the tests whose names match, and lists them
# as PRESET/NAME.
sanitize() {
  local preset="$1" pattern="$2" folder="$REPOSITORY/build/$1" names
  begin "$preset" || return
  names=$(ctest --test-dir "$folder" -N -R "$pattern" | sed -n 's/^ *Test *#[0-9]*: //p')
  # One word a test; a target is a test's name with _ for /.
  # shellcheck disable=SC2046
  build_in_time "$preset" $(sed 's#/#_#g; s#^#tests_#' <<<"$names") || return
  find "$folder/tests" -name CTestTestfile.cmake -exec \
    grep -hE "^(add_test|set_tests_properties)\(\[=\[($pattern)\]=\]" {} + |
    sed "s#(\[=\[#&$preset/#" >>"$EVERYTHING/CTestTestfile.cmake"
}

# Builds the fuzz targets, and lists each as a test of FUZZ_SECONDS.
fuzz() {
  local corpus
  begin fuzz || return
  build_in_time fuzz fuzz || return
  for corpus in "$REPOSITORY"/tests/fuzz/corpus/*/; do
    corpus=$(basename "$corpus")
    echo "add_test([=[fuzz/$corpus]=] bash \"$REPOSITORY/tests/fuzz/run.sh\" $FUZZ_SECONDS $corpus)"
  done >>"$EVERYTHING/CTestTestfile.cmake"
}

run=()
if [ "$sanitizers" = yes ]; then
  sanitize tsan 'worker/experts/(cache_over_banks|expert_cache|slot_table_simulation|pack_file)_test|worker/collective/.*|worker/scheduler/inbox_test|kernels/cpu/thread_pool_test|common/ticker_test|worker/engine/(engine|drain|step_watchdog)_test|worker/(server|group)/.*|gateway/router/.*|gateway/api/(active_requests|generation|generation_route|replay)_test'
  fuzz
  sanitize asan 'cuda_on_cpu/.*|kernels/cuda/.*|worker/checkpoint/(safetensors|model_config|loader_strict|refusals|absurd_values)_test|worker/cache/.*|worker/scheduler/(step_plan|scheduler_simulation)_test|gateway/chat/jinja/.*|gateway/tokenizer/tokenizer_file_test'
  # ThreadSanitizer knows no address space as random as newer kernels make it.
  setarch -R true 2>/dev/null && run=(setarch -R)
fi

say "Running the tests; $SECONDS s have passed"
"${run[@]}" ctest --test-dir "$EVERYTHING" --output-on-failure -j "$(nproc)" </dev/null
