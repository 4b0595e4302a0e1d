// dnnl::graph::compiled_partition, with all that is needed to check what it is executed with.
#pragma once

#include <mutex>
#include <utility>

#include "cached_constants.hpp"
#include "call.hpp"
#include "constant_writing.hpp"
#include "engine.hpp"
#include "forked.hpp"
#include "logical_tensor.hpp"

namespace ogp {

struct compiled_partition {
    engine_ptr engine_;
    std::string name;                    // the partition's label
    std::vector<logical_tensor> inputs;  // in the order that execute takes
    std::vector<logical_tensor> outputs;
    std::vector<std::pair<size_t, size_t>> inplace_ports;
    size_t scratchpad_bytes = 0;
    // Null if constants were not cached when it was compiled.
    std::shared_ptr<cached_constants> constants;
    // Whether an execution may write constants into oneDNN's cache: the caller's, or scales.
    bool may_write_constants = false;
    mutable constant_writing writing;  // of calls through the mirror
    int threads = 1;                   // that it was compiled for
    // Whether executions at the same time would write to the same memory of oneDNN's.
    bool shares_memory = false;
    dg::compiled_partition value;

    compiled_partition() = default;
    ~compiled_partition() {
        leak_in_child(value);
        if (!value || !PyGILState_Check() || is_finalizing()) return;
        const kernel_destruction destruction;
        value.reset(nullptr);
    }
    compiled_partition(const compiled_partition &) = delete;
    compiled_partition &operator=(const compiled_partition &) = delete;

    const dg::compiled_partition &get() const;

    // Is held during an execution, without the GIL; an allocator of the user's may execute within.
    std::unique_lock<std::recursive_mutex> turn() const {
        return shares_memory ? std::unique_lock<std::recursive_mutex>(turns_)
                             : std::unique_lock<std::recursive_mutex>();
    }

private:
    // One for all: oneDNN's cache has equal partitions share their kernels.
    static inline std::recursive_mutex turns_;
};

using compiled_partition_ptr = std::shared_ptr<compiled_partition>;

}  // namespace ogp
