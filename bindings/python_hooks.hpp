// What the mirror asks the Python package: the one description of oneDNN's known defects is there.
#pragma once

#include <vector>

#include "graph.hpp"
#include "op_ports.hpp"

namespace ogp {

// Raises KnownDefectError when the ops of one partition make oneDNN crash or leave its buffers.
// `shapes` are what follows from all that is known, `given` the tensors that compile was given.
void check_known_defects(const graph_record &record, const std::vector<const op *> &ops,
        const shapes_by_id &shapes, const tensors_by_id &given);

// Raises KnownDefectError for a graph that crashes oneDNN while it looks for fusions.
void check_partitioning(const graph_record &record);

}  // namespace ogp
