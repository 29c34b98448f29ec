"""YAML recipes: from text to frozen rules, and the engine that applies them and records who changed what."""
