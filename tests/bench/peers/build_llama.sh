#!/usr/bin/env bash
# Builds llama.cpp's measuring programs for this processor, from the source
# package of llama-cpp-python on PyPI:
#   bash tests/bench/peers/build_llama.sh DIR [PACKAGE.tar.gz]
# DIR is a scratch folder, of 0.5 GB in the end; the package (77 MB) is fetched
# by pip unless given. Some 6 minutes of processor time. Ends with where the
# programs are: DIR/build/bin.
# OpenMP and all else are as upstream's defaults; only what no measurement
# needs is left out.
set -eu

VERSION=0.3.36

if [ $# -lt 1 ]; then
  sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
package=${2:+$(realpath "$2")}
mkdir -p "$1"
cd "$1"
: "${package:=llama_cpp_python-$VERSION.tar.gz}"

if [ ! -d source ]; then
  if [ ! -f "$package" ]; then
    python3 -m pip download --no-deps --no-binary llama-cpp-python \
      "llama-cpp-python==$VERSION" -d . >&2
  fi
  mkdir -p source.part
  tar xzf "$package" -C source.part --strip-components=1
  mv source.part source
fi

# Arguments, chat templates and parsers are most of what there is to compile and
# none of what is measured.
echo 'cmake_language(DEFER CALL target_compile_options llama-common PRIVATE -O0)' >plain.cmake

cmake -S source/vendor/llama.cpp -B build -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DGGML_NATIVE=ON -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF \
  -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF \
  -DLLAMA_BUILD_UI=OFF \
  "-DCMAKE_PROJECT_llama.cpp_INCLUDE=$PWD/plain.cmake" >build.log
nice -n 10 ninja -C build -j2 \
  llama-bench llama-batched-bench llama-quantize >>build.log 2>&1 || {
  tail -n 30 build.log >&2
  exit 1
}
echo "$PWD/build/bin"
