// Running a compiled graph: all partitions in one call, over memory that was planned before.
#pragma once

#include <atomic>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>

#include <pybind11/numpy.h>

#include "compiled_partition.hpp"
#include "stream.hpp"
#include "ticks.hpp"

namespace ogp {

// An array at the edge of a model: what it must be so that its memory is used as it is.
struct edge {
    logical_tensor lt;
    std::string name;
    py::dtype dtype;
    std::vector<py::ssize_t> shape;
    std::vector<py::ssize_t> strides;  // in bytes
    size_t bytes = 0;
    size_t alignment = 1;
    bool updated = false;  // an input that a Python step writes to
};

enum class place { input, output, constant, arena };

// Where a step finds a tensor: the number of an input, output or constant, and the bytes before it;
// in the arena only the bytes.
struct argument {
    place where = place::arena;
    size_t index = 0;
    logical_tensor lt;
    size_t offset = 0;
};

// An input or output of a model: its name, its array's data type if that is none of oneDNN's, and
// whether a step updates it. With such a type the logical tensor describes the array's bytes, those
// of an element along the last dim.
using described_edge = std::tuple<logical_tensor, py::str, std::optional<py::dtype>, bool>;

struct step {
    std::string name;
    // A partition, or a Python function (inputs, outputs).
    compiled_partition_ptr compiled;
    std::shared_ptr<cached_constants> constants;
    std::unique_ptr<constant_writing> writing;  // where oneDNN is not done on return
    py::object function;
    std::vector<argument> inputs, outputs;
    std::vector<edge> read, written;   // the arrays that a function gets
    std::optional<size_t> scratchpad;  // offset in the arena
    std::string why;                   // it runs by itself, or otherwise than the graph says
    std::string implementation;        // for profiles
};

// Everything that one running call needs for itself; calls at the same time have one each.
class run_context;

class executor : public std::enable_shared_from_this<executor> {
public:
    executor(std::string name, engine_ptr e, const std::vector<described_edge> &in,
            const std::vector<described_edge> &out, const std::vector<py::array> &constants,
            const py::list &steps, size_t arena_bytes, int threads, py::function convert_input,
            py::function check_output);
    ~executor();
    executor(const executor &) = delete;
    executor &operator=(const executor &) = delete;

    // What a caller gave, held; and the memory of it that conforms.
    struct arrays {
        explicit arrays(std::pmr::memory_resource *pool) : held(pool), data(pool) {}
        std::pmr::vector<py::object> held;
        std::pmr::vector<void *> data;
    };
    void take_inputs(PyObject *const *given, size_t count, arrays &made) const;
    // `out` is null, None, an array, or a sequence of arrays; null makes new ones.
    void take_outputs(PyObject *out, const arrays &inputs, arrays &made) const;
    bool conforms(const edge &e, PyObject *object, bool written) const;

    // Runs with the GIL held on entry and exit, released between; raises when a step fails.
    // `bound`: the context knows the arrays already.
    void run(run_context &context, const arrays &inputs, const arrays &outputs, bool bound = false);

    std::unique_ptr<run_context> acquire();
    void give_back(std::unique_ptr<run_context> context) noexcept;

    py::object result(const arrays &outputs) const;

    // Holds a constant by another object: its place, or an array there.
    void hold_constant(size_t index, const py::object &owner);

    std::string name;
    engine_ptr engine_;
    std::vector<edge> inputs, outputs;
    std::vector<py::object> constants;  // arrays, or constant_place where the array is gone
    std::vector<void *> constant_data;
    std::vector<size_t> constant_bytes;
    std::vector<step> steps;
    size_t arena_bytes = 0;
    int threads = 0;
    bool synchronous = false;
    bool cached = false;  // compiled while constants were cached
    py::function convert_input, check_output;
    py::object before_growing = py::none();  // called with the GIL before a further context

    std::atomic<uint64_t> calls{0}, ticks_taken{0};
    const tick_rate rate;
    std::atomic<int64_t> contexts{0};

private:
    void check_step(const step &s) const;
    void use_constants();

    // What `cached_constants::times_emptied` was at the last use.
    std::atomic<uint64_t> used_{0};

    std::mutex mutex_;
    std::vector<std::unique_ptr<run_context>> free_;
};

using executor_ptr = std::shared_ptr<executor>;

}  // namespace ogp
