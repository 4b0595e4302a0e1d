// What oneDNN takes for granted about an op and crashes, or reads out of bounds, without.
//
// Only memory safety is decided here; whether an op makes sense is oneDNN's own schema to say.
#pragma once

#include <vector>

#include "op_ports.hpp"

namespace ogp {

// Raises InvalidGraphOpError when an attribute's value would crash oneDNN.
void check_attributes(const op &o);

// Raises InvalidShapeError when the shapes or strides would. Unknown dims are passed over.
void check_shapes(const op &o);

// The same for ops that run together, in dependency order, where shapes follow from one op for the
// next; `given` is what compile is given, beyond what the ops themselves say. Returns what is known
// of all shapes in the end.
shapes_by_id check_partition(const std::vector<const op *> &ops, const tensors_by_id &given);

}  // namespace ogp
