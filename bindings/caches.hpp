// What other files do to oneDNN's caches.
#pragma once

#include <string>

#include "common.hpp"

namespace ogp {

// Drops every compiled partition that oneDNN keeps; those in use live on with their owners.
void empty_compiled_partition_cache() noexcept;

// Whether oneDNN caches constants. What is compiled with that computes with unwritten memory, or
// fails, when the cache is off at execution.
inline bool caches_constants(dnnl::engine::kind kind) noexcept {
    size_t capacity = 0;
    return dnnl_graph_get_constant_tensor_cache_capacity(
                   static_cast<dnnl_engine_kind_t>(kind), &capacity)
            == dnnl_success
            && capacity != 0;
}

// Raises for what was compiled with the cache when it is off now.
void require_constant_cache(const std::string &context, bool cached, dnnl::engine::kind kind);

}  // namespace ogp
