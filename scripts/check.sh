#!/bin/sh
# Every check of the project, in the order that fails fastest: format, lint, types, tests with coverage.
set -eu
cd "$(dirname "$0")/.."
bin=${VENV:-.venv}/bin
"$bin/ruff" format --check .
"$bin/ruff" check .
"$bin/mypy"
"$bin/coverage" erase
"$bin/coverage" run -m pytest "$@"
"$bin/coverage" combine --quiet
"$bin/coverage" report
