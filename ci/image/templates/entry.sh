#!/bin/bash
# How the runtime image starts: `run`, `test`, `shell`, `notebook`, `serve`; any other first word is a command.
# images/README.md says what each role holds to. It needs no root, no name for its user and nothing but /tmp to
# write to, and it gives on signals and exit codes as they are.
# Without single quotes and escaped ones: a Containerfile and its linters have this in one line.
set -u

ROLES=${SPYRE_ROLES:-/opt/spyre/roles}

refuse() {
  printf "spyre: %s\n" "$1" >&2
  exit 2
}

# A user number that the image does not know has no name and perhaps no home it can write.
prepare() {
  export USER="${USER:-spyre}" LOGNAME="${LOGNAME:-spyre}"
  if [ ! -w "${HOME:-/}" ] && HOME=$(mktemp -d /tmp/home.XXXXXXXX 2>/dev/null || printf %s "${HOME:-/}"); then
    export HOME
  fi
}

forward() {
  heard=$1
  [ -z "$child" ] || kill "-$1" "$child" 2>/dev/null
}

# As process 1 a command would not be ended by the signals that end it elsewhere, and nobody would take over
# its orphans; so this shell stays before it then.
start() {
  if [ "$$" -ne 1 ]; then
    exec "$@"
  fi
  local name code
  heard="" child=""
  for name in HUP INT QUIT TERM USR1 USR2 WINCH; do
    # shellcheck disable=SC2064  # the name of now is meant
    trap "forward $name" "$name"
  done
  if [ -t 0 ]; then
    # What is typed at a terminal reaches the command by itself.
    trap "heard=WINCH" INT QUIT WINCH
  fi
  # A command in the background would not hear of INT and QUIT, and would read nothing.
  (trap - HUP INT QUIT TERM USR1 USR2 WINCH && exec "$@") <&0 &
  child=$!
  # What was heard before it was there.
  [ -z "$heard" ] || kill "-$heard" "$child" 2>/dev/null
  while :; do
    wait "$child" 2>/dev/null
    code=$?
    if [ -z "$heard" ]; then
      exit "$code"
    fi
    heard=""
  done
}

port() {
  export PORT="${PORT:-$1}"
  case $PORT in
    *[!0-9]*) refuse "PORT=$PORT is no port: give a number, or nothing for $1" ;;
  esac
}

role() {
  local name=$1
  shift
  [ -f "$ROLES/$name" ] || refuse "this image has no role $name: its stack file names no command for it"
  start /bin/bash "$ROLES/$name" "$@"
}

word=${1:-shell}
[ "$#" -eq 0 ] || shift
prepare
case $word in
  run)
    [ "$#" -gt 0 ] || refuse "run wants a command"
    start "$@"
    ;;
  shell)
    # A shell sees to signals and orphans by itself.
    exec /bin/bash "$@"
    ;;
  test)
    role test "$@"
    ;;
  notebook)
    port 8888
    role notebook "$@"
    ;;
  serve)
    port 8080
    export MODEL="${MODEL:-/model}"
    if [ -f "$ROLES/serve" ] && [ -z "$(ls -A "$MODEL" 2>/dev/null)" ]; then
      refuse "there is no model at $MODEL: mount one there, or set MODEL to where it is"
    fi
    role serve "$@"
    ;;
  *)
    start "$word" "$@"
    ;;
esac
