// dnnl::graph::graph, and what its partitions need to know of it.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "op.hpp"

namespace ogp {

// For threads that use oneDNN's graph, which is not synchronised, and the ops that its partitions
// share with it. Partitioning takes their attribute `matched` away and sets it again: what is
// compiled meanwhile is stored under a key that oneDNN's cache of compiled partitions never finds
// again, and keeps (3.7.2, 3.13.1).
struct shared_ops {
    // Lock it without the GIL, inside a oneDNN call: a process that forks meanwhile makes none any
    // more. Recursive, because an allocator of the user's runs in the middle of a compilation.
    std::recursive_mutex mutex;
    bool compiled = false;  // since they were partitioned
};

// The ops of a graph as they were when it took them; shared with its partitions, which outlive it.
struct graph_record {
    std::map<size_t, op> ops;
    std::map<size_t, size_t> producers;  // logical tensor id -> op id
    dnnl::fpmath_mode fpmath = dnnl::fpmath_mode::strict;
    bool fpmath_applies_to_int = false;
    std::shared_ptr<shared_ops> shared = std::make_shared<shared_ops>();  // copies share it
};

using graph_record_ptr = std::shared_ptr<const graph_record>;

struct graph {
    dg::graph value;
    dnnl::engine::kind engine_kind;
    std::shared_ptr<graph_record> record = std::make_shared<graph_record>();

    explicit graph(dnnl::engine::kind kind) : value(kind), engine_kind(kind) {}
    graph(dnnl::engine::kind kind, dnnl::fpmath_mode mode) : value(kind, mode), engine_kind(kind) {}
};

// What the operation table says is wrong with an op that oneDNN refused; empty if nothing.
std::string fault_of(const op &o);

}  // namespace ogp
