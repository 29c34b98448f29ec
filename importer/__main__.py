"""`python -m importer`: the command line, for environments without the console script."""

from importer.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
