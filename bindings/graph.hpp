// dnnl::graph::graph, and what its partitions need to know of it.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "op.hpp"

namespace ogp {

// The ops of a graph as they were when it took them; shared with its partitions, which outlive it.
struct graph_record {
    std::map<size_t, op> ops;
    std::map<size_t, size_t> producers;  // logical tensor id -> op id
    dnnl::fpmath_mode fpmath = dnnl::fpmath_mode::strict;
    bool fpmath_applies_to_int = false;
    // By a partition's id. oneDNN's cache of compiled partitions never finds again what several
    // threads made of one partition at a time, and keeps it (3.7.2, 3.13.1). Look up with the GIL,
    // lock without it, inside a oneDNN call: a process that forks meanwhile makes none any more.
    // Recursive, because an allocator of the user's runs in the middle of it. Copies share it.
    std::shared_ptr<std::map<size_t, std::recursive_mutex>> compiling =
            std::make_shared<std::map<size_t, std::recursive_mutex>>();
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
