"""Rust source for a converted model: structs, config, `init` and a loader; never a forward pass.

    declaring   a template, a plan or a saved module → layers, sizes as names where they have one
    unifying    names → Rust types: which modules are instances of one struct
    lifting     numbers → constructors: what differs is an argument
    rust_text   the file, as rustfmt would have it

Not here: the conversion itself. The file reads what `importer convert` writes.
"""

from importer.rust.rust_source import rust_of_checkpoint, rust_of_recipe, rust_of_target

__all__ = ["rust_of_checkpoint", "rust_of_recipe", "rust_of_target"]
