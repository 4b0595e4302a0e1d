// What oneDNN takes for granted about an op and crashes, or reads out of bounds, without.
//
// Only memory safety is decided here; whether an op makes sense is oneDNN's own schema to say.
#pragma once

#include <map>

#include "op.hpp"

namespace ogp {

// The best known logical tensor for each id: what compile is given, over what the graph says.
using known_tensors = std::map<size_t, logical_tensor>;

// Raises InvalidGraphOpError when an attribute's value would crash oneDNN.
void check_attributes(const op &o);

// Raises InvalidShapeError when the shapes would. Unknown dims are passed over.
void check_shapes(const op &o, const known_tensors &known);

}  // namespace ogp
