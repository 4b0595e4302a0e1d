// dnnl::graph::graph, and what its partitions need to know of it.
#pragma once

#include <map>
#include <mutex>

#include "op.hpp"

namespace ogp {

// The ops of a graph as they were when it took them; shared with its partitions, which outlive it.
struct graph_record {
    std::map<size_t, op> ops;
    std::map<size_t, size_t> producers;  // logical tensor id -> op id
    dnnl::fpmath_mode fpmath = dnnl::fpmath_mode::strict;
    bool fpmath_applies_to_int = false;
};

using graph_record_ptr = std::shared_ptr<const graph_record>;

struct graph {
    dg::graph value;
    dnnl::engine::kind engine_kind;
    std::shared_ptr<graph_record> record = std::make_shared<graph_record>();
    // oneDNN's graph is not synchronised, and calls on it release the GIL. Lock it after that.
    std::mutex mutex;

    explicit graph(dnnl::engine::kind kind) : value(kind), engine_kind(kind) {}
    graph(dnnl::engine::kind kind, dnnl::fpmath_mode mode) : value(kind, mode), engine_kind(kind) {}
};

// What the operation table says is wrong with an op that oneDNN refused; empty if nothing.
std::string fault_of(const op &o);

}  // namespace ogp
