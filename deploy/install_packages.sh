#!/usr/bin/env bash
# Installs what Debian 12 lacks to build Phalanx; with `tests` as its argument,
# also what the tests need. As root, or through sudo. Where everything is
# there already it only looks, in a fraction of a second.
#   bash deploy/install_packages.sh [tests]
set -eu

BUILD=(
  g++ binutils cmake ninja-build ccache pkg-config
  libgrpc++-dev libgrpc-dev protobuf-compiler protobuf-compiler-grpc
  libprotobuf-dev libabsl-dev libc-ares-dev libre2-dev libssl-dev zlib1g-dev
  nlohmann-json3-dev libicu-dev libpcre2-dev libedit-dev libcli11-dev
  prometheus-cpp-dev libcivetweb-dev
  libgtest-dev libgmock-dev
)
# The tests also unpack a vocabulary, drive the service from Python, hold its
# metrics against promtool, type into both shells that have completions, hold
# the sources against clang-format, fuzz the parsers, which only clang can, and
# run CUDA kernels with a fiber a thread.
TESTS=(xz-utils procps prometheus python3 python3-grpcio python3-protobuf
       grpc-proto zsh clang libclang-rt-14-dev clang-format
       libboost-context1.81-dev)

case "${1:-}" in
  "") packages=("${BUILD[@]}") ;;
  tests) packages=("${BUILD[@]}" "${TESTS[@]}") ;;
  *)
    echo "install_packages.sh: the argument is $1; must be tests, or none" >&2
    exit 2
    ;;
esac

missing=()
present=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
for package in "${packages[@]}"; do
  grep -qxF "installed $package" <<<"$present" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "Packages: all ${#packages[@]} are there"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install_packages.sh: ${#missing[@]} packages are missing and only root can install them;" \
      "neither root nor sudo is here. As root, run:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# apt COMMAND...: silent; the log is shown by whoever finds that it failed.
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
    -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 "$@" >>"$log" 2>&1
}

echo "Packages: installing ${#missing[@]} of ${#packages[@]}: ${missing[*]}"
started=$SECONDS
# A list that cannot be refreshed may still be good enough to install from.
apt update || true
if ! apt install --no-install-recommends "${missing[@]}"; then
  echo "FAILED: installing packages. The end of what apt-get said:" >&2
  tail -n 40 "$log" >&2
  exit 1
fi
echo "Packages: done in $((SECONDS - started)) s"
