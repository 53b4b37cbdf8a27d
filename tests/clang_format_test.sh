#!/usr/bin/env bash
# Whether every source is as clang-format leaves it. Skipped (77) where there is
# no clang-format; the packages of the tests have it.
#   bash tests/clang_format_test.sh
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v clang-format >/dev/null || {
  echo "clang-format is not installed"
  exit 77
}
find common gateway kernels worker tests \
  -type f \( -name '*.cc' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -n 64 -P "$(nproc)" clang-format --dry-run -Werror
