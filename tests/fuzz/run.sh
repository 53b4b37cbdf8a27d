#!/usr/bin/env bash
# Fuzzes the readers of files and plans.
#   bash tests/fuzz/run.sh SECONDS [TARGET]
# Without TARGET: builds the fuzz preset, and gives SECONDS to each target of
# tests/fuzz/corpus, as many at once as there are cores. With it: that one, as
# it was built. What a run learns stays in build/fuzz/corpus for the next; what
# it finds is in build/fuzz/found.
set -eu
REPOSITORY="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
SEEDS="$REPOSITORY/tests/fuzz/corpus"
FOLDER="$REPOSITORY/build/fuzz"

if [[ ! "${1:-}" =~ ^[1-9][0-9]*$ ]] || [ $# -gt 2 ] || [ ! -d "$SEEDS/${2:-}" ]; then
  echo "usage: run.sh SECONDS [TARGET]; the targets are" "$SEEDS"/* >&2
  exit 2
fi

if [ $# -eq 1 ]; then
  . "$REPOSITORY/deploy/steps.sh"
  build "Building the fuzz targets" fuzz fuzz
  printf '%s\n' "$SEEDS"/* | sed 's#.*/##' |
    xargs -n 1 -P "$(nproc)" bash "$REPOSITORY/tests/fuzz/run.sh" "$1"
  exit
fi

case "$2" in
  chat_template) words=(-dict="$REPOSITORY/tests/fuzz/chat_template.dict") ;;
  step_plan | output_parser | resume_token) words=() ;;
  *) words=(-dict="$REPOSITORY/tests/fuzz/json.dict") ;;
esac

mkdir -p "$FOLDER/corpus/$2" "$FOLDER/found"
log="$FOLDER/fuzz-$2.log"
# Ten seconds for one case are a find, as is a gigabyte.
"$FOLDER/tests/fuzz_$2" -max_total_time="$1" -max_len=16384 -timeout=10 \
  -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="$FOLDER/found/$2-" \
  "${words[@]}" "$FOLDER/corpus/$2" "$SEEDS/$2" >"$log" 2>&1 || {
  tail -n 60 "$log" >&2
  echo "FAILED: fuzz_$2; what it found is in $FOLDER/found" >&2
  exit 1
}
grep -a DONE "$log" | sed "s/^/$2: /"
