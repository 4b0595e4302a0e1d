// Valid partitions that oneDNN nevertheless reads or writes out of bounds with, by version.
//
// Each was found by tests/fuzz.py over buffers that end at an unreadable page, and is refused until
// a version is known to be right.
#pragma once

#include <vector>

#include "graph.hpp"
#include "op_ports.hpp"

namespace ogp {

using tensors_by_id = std::map<size_t, logical_tensor>;

// Raises UnimplementedError when the ops of one partition meet such a defect. `shapes` are what
// follows from all that is known, `given` the logical tensors that compile was given.
void check_known_defects(
        const std::vector<const op *> &ops, const shapes_by_id &shapes, const tensors_by_id &given);

// Raises UnimplementedError for a graph that crashes oneDNN while it looks for fusions.
void check_partitioning(const graph_record &record);

}  // namespace ogp
