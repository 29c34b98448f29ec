"""Output files: layout from the plan, positioned writes, atomic publish. Knows nothing of where values come from."""
