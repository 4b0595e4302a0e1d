// dnnl::stream, which keeps its engine alive, and what runs on it.
#pragma once

#include <memory>
#include <unordered_set>
#include <vector>

#include "engine.hpp"
#include "memory.hpp"

namespace ogp {

struct compiled_partition;

struct stream : std::enable_shared_from_this<stream> {
    engine_ptr engine_;  // oneDNN's stream only has a raw pointer to it
    dnnl::stream value;
    dnnl::stream::flags flags = dnnl::stream::flags::default_flags;
    bool reusable = false;  // when this ends: made by us, and in order

    stream() = default;
    // Waits for what still runs: the memory that it uses is let go after it.
    ~stream();
    stream(const stream &) = delete;
    stream &operator=(const stream &) = delete;

    dnnl::stream &get();

    // Waits without the GIL, then lets go what `keep` kept.
    void wait();

    // Keeps what an asynchronous execution uses, until `wait`. Memory that is kept already costs
    // nothing more, so that a model may run any number of times in between.
    void keep(const memory_ptr &memory);
    void keep(const std::shared_ptr<compiled_partition> &compiled);

    // The same until `is_complete()` is true, if that is noticed before.
    void keep_until(py::object is_complete, std::vector<memory_ptr> memory,
            std::shared_ptr<compiled_partition> compiled);

    // Lets go what executions kept whose event is complete.
    void let_go_finished();

    // How many blocks of memory and compiled partitions are kept now.
    size_t kept() const;

private:
    struct execution {
        py::object is_complete;
        std::vector<memory_ptr> memory;
        std::shared_ptr<compiled_partition> compiled;
    };
    struct wards {
        std::unordered_set<memory_ptr> memory;
        std::unordered_set<std::shared_ptr<compiled_partition>> compiled;
        std::vector<execution> executions;
    };
    wards wards_;                  // guarded by the GIL
    size_t look_through_at_ = 64;  // executions
};

using stream_ptr = std::shared_ptr<stream>;

// Waits for the execution that writes this memory, if one does.
void wait_for_writer(const memory_block &memory);

}  // namespace ogp
