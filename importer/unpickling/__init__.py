"""Pickle bytes to inert values, by our own machine over our own opcode table; constructs and imports nothing."""
