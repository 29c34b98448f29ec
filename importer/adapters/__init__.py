"""Module types: parameter names and layouts on the torch side and the Burn side, forward and reverse."""
