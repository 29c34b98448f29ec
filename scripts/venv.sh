#!/bin/sh
# Make .venv with this project in it. Needs only Python 3.10+ and either venv's own pip or a system pip, so that it also
# works where the system's packages are managed by the distribution and ensurepip is split off.
#
#   sh scripts/venv.sh         the tool
#   sh scripts/venv.sh test    the tool and what its tests need, editable
#   sh scripts/venv.sh dev     the same and the linters
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
venv=${VENV:-.venv}

if ! [ -x "$venv/bin/python" ]; then
    if ! "$python" -m venv "$venv" >/dev/null 2>&1; then
        # No ensurepip: make the environment without pip and let the system's pip fill it from outside.
        rm -rf "$venv"
        "$python" -m venv --without-pip "$venv"
        "$python" -m pip --quiet --disable-pip-version-check --python "$venv/bin/python" install pip
    fi
fi
case ${1:-} in
    "") set -- . ;;
    test) set -- -e '.[test]' ;;
    dev) set -- -e '.[dev]' ;;
    *) echo "usage: sh scripts/venv.sh [test|dev]" >&2; exit 2 ;;
esac
"$venv/bin/python" -m pip --quiet --disable-pip-version-check install "$@"
