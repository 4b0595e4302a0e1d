// What shapes the inputs of an op must have among each other, and what shapes follow for its
// outputs.
//
// oneDNN infers shapes too, but trusts many of those it is given: then it reads and writes as far
// as the inputs say, in memory that is as large as the outputs say.
#pragma once

#include "op_ports.hpp"

namespace ogp {

// Raises InvalidShapeError where the inputs don't fit together; returns the outputs' shapes, as
// far as they follow from the inputs and attributes, in order.
std::vector<known_dims> infer_outputs(const op &o, const ports &p);

}  // namespace ogp
