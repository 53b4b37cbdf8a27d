#!/usr/bin/env bash
# From a bare Debian 12 to an answer: installs the packages, builds, starts the
# service with the model that the repository carries on 2 ranks, asks it a
# question, and keeps serving until Ctrl-C. As root, or with sudo.
#   bash deploy/quickstart.sh [--once]
# --once: stops after the answer.
set -u
REPOSITORY="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

once=no
case "${1:-}" in
  "") ;;
  --once) once=yes ;;
  *)
    echo "quickstart.sh: the argument is $1; must be --once, or none" >&2
    exit 2
    ;;
esac
PHALANX="$REPOSITORY/build/release/bin/phalanx"
# As the person who called this would type it.
typed="${PHALANX#"$PWD/"}"
. "$REPOSITORY/deploy/steps.sh"

QUESTION="What is 2 + 3?"
START_SECONDS=120

serve=""
ready=""

# Ends the service and waits for it: nothing of it is left behind.
stop() {
  trap '' INT TERM
  [ -n "$serve" ] && kill -TERM "$serve" 2>/dev/null && wait "$serve"
  [ -n "$ready" ] && rm -f "$ready"
}
trap stop EXIT
trap 'say "" "Stopping"; exit 0' INT TERM

bash "$REPOSITORY/deploy/install_packages.sh" || exit 1
build "Building" release phalanx phalanx-gateway phalanx-worker

log="$LOGS/serve.log"
ready=$(mktemp)
"$PHALANX" serve --tp-size 2 >"$ready" 2>"$log" </dev/null &
serve=$!
deadline=$((SECONDS + START_SECONDS))
until grep -q '^ready ' "$ready"; do
  if ! kill -0 "$serve" 2>/dev/null; then
    serve=""
    fail "Starting the service" "$log"
  fi
  [ "$SECONDS" -lt "$deadline" ] || fail "Starting the service within $START_SECONDS s" "$log"
  sleep 0.05
done
say "Serving: $(cat "$ready")"
address=$(sed -n 's/^ready .*\baddress=\([^ ]*\).*/\1/p' "$ready")

say "" "> $QUESTION"
if ! "$PHALANX" chat --timings --address "$address" "$QUESTION"; then
  fail "Asking a question" "$log"
fi

say "" "Next, in another terminal:" \
  "  $typed chat" \
  "  $typed generate --prompt 'Once upon a time' --max-tokens 60" \
  "  $typed status"
[ "$once" = yes ] && exit 0

say "" "Serving until Ctrl-C. The log is $log"
wait "$serve"
code=$?
serve=""
say "" "The service ended by itself. The end of $log:" >&2
tail -n 20 "$log" >&2
exit "$((code == 0 ? 1 : code))"
