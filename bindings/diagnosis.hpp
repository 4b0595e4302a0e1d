// Why oneDNN refuses something, asked of a second copy of the library.
//
// oneDNN names the check that failed only in its verbose mode "check". That mode can be set by
// environment variable alone, once, and makes every execution print as well. So a copy of the
// library, private to this file and loaded at the first failure, runs in that mode and is asked
// the same question; the library that does the work is left as it is.
#pragma once

#include <vector>

#include "graph.hpp"

namespace ogp {

// The reason why a graph of `kind` refuses the op; empty when it doesn't or can't be told.
std::string diagnose_op(const op &o, dnnl::engine::kind kind);

// The reason why the partition of these ops can't be compiled; empty likewise.
std::string diagnose_compile(const graph_record &record, const std::vector<size_t> &op_ids,
        const std::vector<logical_tensor> &inputs, const std::vector<logical_tensor> &outputs,
        dnnl::engine::kind kind);

}  // namespace ogp
