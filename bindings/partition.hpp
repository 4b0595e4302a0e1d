// dnnl::graph::partition, with the record of the graph that it is a part of.
#pragma once

#include "cached_constants.hpp"
#include "engine.hpp"
#include "graph.hpp"

namespace ogp {

struct partition {
    dg::partition value;
    graph_record_ptr record;
    // Made by the first compilation while constants are cached.
    mutable std::shared_ptr<cached_constants> constants;

    const dg::partition &get() const;
};

// "partition 3 (Convolution 'conv0', ReLU)", for messages.
std::string label(const partition &p);

}  // namespace ogp
