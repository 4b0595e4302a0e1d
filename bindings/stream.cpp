#include "stream.hpp"

#include <algorithm>

#include "call.hpp"
#include "compiled_partition.hpp"

namespace ogp {
namespace {

constexpr size_t first_look = 64;

bool is_done(const py::object &is_complete) {
    try {
        return is_complete().cast<bool>();
    } catch (py::error_already_set &e) {
        e.discard_as_unraisable("onednn_graph_py.stream");
    } catch (const py::cast_error &) {
    }
    return false;
}

}  // namespace

dnnl::stream &stream::get() {
    if (!value) raise_invalid_arguments("stream: this stream is empty (default-constructed)");
    return value;
}

void stream::wait() {
    get();
    // What comes while we wait belongs to the next wait.
    wards done = std::move(wards_);
    wards_ = {};
    look_through_at_ = first_look;
    call_onednn(
            [&] {
                value.wait();
                return dnnl_success;
            },
            [] { return std::string("stream.wait"); }, 1);
}

stream::~stream() {
    if (must_not_destroy()) {
        leak_in_child(value);
        static_cast<void>(new wards(std::move(wards_)));
    }
    if (!value || !Py_IsInitialized()) return;
    try {
        if (kept()) wait();
    } catch (py::error_already_set &e) {
        e.discard_as_unraisable("onednn_graph_py.stream");
        return;
    } catch (...) {
        return;
    }
    if (reusable) engine_->give_stream(std::move(value));
}

void stream::keep(const memory_ptr &memory) { wards_.memory.insert(memory); }

void stream::keep(const compiled_partition_ptr &compiled) { wards_.compiled.insert(compiled); }

void stream::let_go_finished() {
    // The list is ours meanwhile: asking an event runs Python, which may come back here.
    std::vector<execution> all = std::move(wards_.executions), running;
    wards_.executions = {};
    for (auto &one : all)
        if (!is_done(one.is_complete)) running.push_back(std::move(one));
    for (auto &one : wards_.executions) running.push_back(std::move(one));
    wards_.executions = std::move(running);
}

void stream::keep_until(
        py::object is_complete, std::vector<memory_ptr> memory, compiled_partition_ptr compiled) {
    if (wards_.executions.size() >= look_through_at_) {
        // Seldom enough that each execution is looked at a few times at most.
        let_go_finished();
        look_through_at_ = std::max(first_look, 2 * wards_.executions.size());
    }
    wards_.executions.push_back({std::move(is_complete), std::move(memory), std::move(compiled)});
}

size_t stream::kept() const {
    size_t count = wards_.memory.size() + wards_.compiled.size();
    for (const auto &one : wards_.executions) count += one.memory.size() + 1;
    return count;
}

void wait_for_writer(const memory_block &memory) {
    if (const stream_ptr writer = memory.writer.lock()) writer->wait();
}

void init_stream(py::module_ &m) {
    py::class_<stream, stream_ptr> cls(m, "stream",
            "A queue of work on an engine. Mirrors ``dnnl::stream`` (oneDNN page: Basic Concepts).");
    define_enum<dnnl::stream::flags>(cls, "flags", flag_enum,
            "How a stream orders work; combine with ``|``. Mirrors ``dnnl::stream::flags``.");
    alias_enum<dnnl::stream::flags>(cls, cls.attr("flags"));

    cls.def(py::init<>(), "An empty stream; using it raises `InvalidArgumentsError`.")
            .def(py::init([](engine_ptr e, enum_arg<dnnl::stream::flags> flags) {
                auto made = std::make_shared<stream>();
                made->engine_ = std::move(e);
                made->flags = flags;
                made->engine_->get();
                made->reusable = made->flags == dnnl::stream::flags::in_order;
                if (made->reusable) made->value = made->engine_->take_stream();
                if (made->value) return made;
                call_onednn(
                        [&] {
                            made->value = dnnl::stream(made->engine_->value, made->flags);
                            return dnnl_success;
                        },
                        [&] { return "stream(" + repr(*made->engine_) + ")"; }, 1);
                return made;
            }),
                    py::arg("engine").none(false),
                    defaults_to("flags", dnnl::stream::flags::in_order),
                    "A stream on `engine`, which it keeps alive.\n\n"
                    "Raises\n------\nInvalidArgumentsError\n"
                    "    The engine is empty, or can't do what `flags` ask for.")
            .def(
                    "get_engine",
                    [](stream &self) {
                        self.get();
                        return self.engine_;
                    },
                    "The engine that the stream was made with.")
            .def(
                    "wait",
                    [](stream_ptr self) {
                        self->wait();
                        return self;
                    },
                    "Waits, without the GIL, until all submitted work is done; returns the stream.")
            .def(
                    "get",
                    [](stream &self) { return reinterpret_cast<uintptr_t>(self.get().get()); },
                    "Address of the C handle (``dnnl_stream_t``), for other extensions.")
            .def("__bool__", [](const stream &self) { return static_cast<bool>(self.value); })
            .def(
                    "__eq__",
                    [](const stream &self, const stream &other) {
                        return self.value == other.value;
                    },
                    py::is_operator())
            .def("__hash__",
                    [](const stream &self) { return std::hash<void *>()(self.value.get(true)); })
            .def("__repr__", [](const stream &self) -> std::string {
                if (!self.value) return "stream()";
                return "stream(" + repr(*self.engine_) + ")";
            });
}

}  // namespace ogp
