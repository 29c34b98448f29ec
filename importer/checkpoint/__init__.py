"""The opened source: tensors, modules, values and roots, from whatever container they came in."""
