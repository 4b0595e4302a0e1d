"""Shape functions of the ops: they infer outputs' shapes and check that the inputs fit together.

Each function takes a `Call`, raises `InvalidShapeError` if shapes don't fit, and returns the
outputs' shapes as far as they follow from inputs and attributes.
"""
