#!/usr/bin/env bash
# Installs what the tests need, builds everything, runs every test. Ends with
# ctest's own summary and its exit code.
#   bash tests/run.sh [--sanitizers]
# --sanitizers: also the parsers under AddressSanitizer and the threads under
# ThreadSanitizer, as far as the time allows; one summary for all.
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
# that the whole stays below 20 minutes on 2 cores.
LATEST_START_SECONDS=840
LATEST_END_SECONDS=1080

bash "$REPOSITORY/deploy/install_packages.sh" tests || exit 1
build "Building everything" release

# ctest's list of what is to run: the release build's, and each sanitizer's.
EVERYTHING="$REPOSITORY/build/everything"
mkdir -p "$EVERYTHING"
echo "subdirs(\"$REPOSITORY/build/release\")" >"$EVERYTHING/CTestTestfile.cmake"

# sanitize PRESET PATTERN: builds the tests whose names match, and lists them
# as PRESET/NAME.
sanitize() {
  local preset="$1" pattern="$2" folder="$REPOSITORY/build/$1" names
  if [ "$SECONDS" -gt "$LATEST_START_SECONDS" ]; then
    say "Leaving out $preset: $SECONDS s have passed, and it begins within $LATEST_START_SECONDS s or not at all"
    return
  fi
  say "$preset: begins after $SECONDS s, ends within $LATEST_END_SECONDS s or is left out"
  step "Configuring $preset" cmake --preset "$preset"
  names=$(ctest --test-dir "$folder" -N -R "$pattern" | sed -n 's/^ *Test *#[0-9]*: //p')
  # One word a test; a target is a test's name with _ for /.
  # shellcheck disable=SC2046
  build_within $((LATEST_END_SECONDS - SECONDS)) "Building $preset" "$preset" \
    $(sed 's#/#_#g; s#^#tests_#' <<<"$names") || {
    say "Leaving out $preset: its build is not done within $LATEST_END_SECONDS s"
    return
  }
  find "$folder/tests" -name CTestTestfile.cmake -exec \
    grep -hE "^(add_test|set_tests_properties)\(\[=\[($pattern)\]=\]" {} + |
    sed "s#(\[=\[#&$preset/#" >>"$EVERYTHING/CTestTestfile.cmake"
}

run=()
if [ "$sanitizers" = yes ]; then
  sanitize tsan 'worker/experts/(expert_cache|slot_table_simulation|pack_file)_test|worker/collective/.*|worker/scheduler/inbox_test|kernels/cpu/thread_pool_test'
  sanitize asan 'worker/checkpoint/(safetensors|model_config|loader_strict)_test|worker/scheduler/(step_plan|scheduler_simulation)_test|gateway/chat/jinja/.*|gateway/tokenizer/tokenizer_file_test'
  # ThreadSanitizer knows no address space as random as newer kernels make it.
  setarch -R true 2>/dev/null && run=(setarch -R)
fi

say "Running the tests; $SECONDS s have passed"
"${run[@]}" ctest --test-dir "$EVERYTHING" --output-on-failure -j "$(nproc)" </dev/null
