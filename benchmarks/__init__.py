"""Side-by-side measurements against `cp` and torch; run with `python -m benchmarks`. No part of the installed package."""
