#include "executor.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <thread>

#include "caches.hpp"
#include "call.hpp"
#include "constant_pages.hpp"
#include "cpu_runtime.hpp"
#include "dtypes.hpp"
#include "recorder.hpp"

namespace ogp {
namespace {

constexpr size_t cache_line = 64;

struct aligned_free {
    void operator()(char *p) const { std::free(p); }
};
// Shared with the views of it that Python steps get.
using aligned_memory = std::shared_ptr<char>;

aligned_memory allocate_aligned(size_t bytes) {
    if (!bytes) return nullptr;
    const size_t rounded = (bytes + cache_line - 1) / cache_line * cache_line;
    auto *p = static_cast<char *>(std::aligned_alloc(cache_line, rounded));
    if (!p) throw std::bad_alloc();
    return aligned_memory(p, aligned_free());
}

py::object owner_of(const aligned_memory &memory) {
    if (!memory) return py::none();
    auto held = std::make_unique<aligned_memory>(memory);
    py::capsule made(held.get(), [](void *p) { delete static_cast<aligned_memory *>(p); });
    held.release();
    return std::move(made);
}

void check(dnnl_status_t status, const std::string &what) {
    if (status != dnnl_success) raise_failure(status, what);
}

place place_of(const std::string &text) {
    if (text == "input") return place::input;
    if (text == "output") return place::output;
    if (text == "constant") return place::constant;
    if (text == "arena") return place::arena;
    raise_invalid_arguments("executor: a tensor is no '" + text + "'");
}

edge make_edge(
        const logical_tensor &lt, std::string name, const std::optional<py::dtype> &dtype = {}) {
    edge e;
    e.lt = lt;
    e.name = std::move(name);
    e.dtype = dtype ? *dtype : numpy_dtype(lt.dtype());
    e.bytes = required_bytes(lt);
    if (is_packed(lt)) {
        e.shape = {static_cast<py::ssize_t>(e.bytes)};
        e.strides = {1};
        return e;
    }
    const auto item = static_cast<py::ssize_t>(info_of(lt.dtype()).bits / 8);
    e.alignment = static_cast<size_t>(item);
    for (const int64_t d : lt.shape()) e.shape.push_back(d);
    if (lt.ndims() > 0)
        for (const int64_t s : lt.strides()) e.strides.push_back(s * item);
    if (dtype) {
        e.shape.pop_back();
        e.strides.pop_back();
        e.alignment = static_cast<size_t>(dtype->alignment());
    }
    return e;
}

bool overlap(const edge &one, const void *data, const py::object &array, const edge &other,
        const void *other_data, const py::object &other_array) {
    const auto *p = static_cast<const char *>(data), *q = static_cast<const char *>(other_data);
    return one.bytes && other.bytes && p < q + other.bytes && q < p + one.bytes
            && py::module_::import("numpy").attr("shares_memory")(array, other_array).cast<bool>();
}

// A view for a Python step, which keeps its memory alive by `owner`: the step may keep the view.
py::array view_of(const edge &e, void *data, const py::handle &owner, bool writable) {
    static char nothing[cache_line];
    // A base, even a meaningless one, keeps NumPy from copying.
    py::array view(e.dtype, e.shape, e.strides, data ? data : nothing, owner);
    if (!writable)
        py::detail::array_proxy(view.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
    return view;
}

// The ticks of a few hundredths of a second: between checks for signals.
constexpr uint64_t signals_after = uint64_t(1) << 27;

}  // namespace

struct tensor_destroyer {
    void operator()(dnnl_graph_tensor_t t) const { dnnl_graph_tensor_destroy(t); }
};
using tensor_handle = std::unique_ptr<dnnl_graph_tensor, tensor_destroyer>;

class run_context {
public:
    explicit run_context(const executor &x)
        : arena_(allocate_aligned(x.arena_bytes)), engine_(x.engine_), stream_(stream_of(x)) {
        for (const step &s : x.steps) {
            calls_.emplace_back();
            call &c = calls_.back();
            if (!s.compiled) continue;
            for (const argument &a : s.inputs) c.inputs.push_back(add(x, a));
            for (const argument &a : s.outputs) c.outputs.push_back(add(x, a));
            // oneDNN refuses null arrays, also empty ones.
            c.input_count = c.inputs.size();
            c.output_count = c.outputs.size();
            if (c.inputs.empty()) c.inputs.push_back(nullptr);
            if (c.outputs.empty()) c.outputs.push_back(nullptr);
            if (s.scratchpad) c.scratchpad = scratchpad(x, s);
        }
    }

    ~run_context() { engine_->give_stream(std::move(stream_)); }
    run_context(const run_context &) = delete;
    run_context &operator=(const run_context &) = delete;

    void set_arrays(
            const std::pmr::vector<void *> &inputs, const std::pmr::vector<void *> &outputs) {
        for (const auto &p : from_inputs_)
            dnnl_graph_tensor_set_data_handle(p.tensor, p.of(inputs));
        for (const auto &p : to_outputs_)
            dnnl_graph_tensor_set_data_handle(p.tensor, p.of(outputs));
    }

    // Without the GIL, which Python steps take for themselves. Returns the number of the step that
    // failed, or the number of steps. Where `times` is given, it gets the ticks at the begin and
    // after each step; each is waited for then, so that its time is its own.
    size_t run(const executor &x, const executor::arrays &inputs, const executor::arrays &outputs,
            dnnl_status_t &status, PyThreadState *&thread, inside_onednn &inside,
            std::vector<uint64_t> *times) {
        status = dnnl_success;
        const threads_scope threads(x.threads);
        if (times) times->push_back(ticks());
        uint64_t checked = ticks();
        for (size_t i = 0; i < x.steps.size(); ++i) {
            const step &s = x.steps[i];
            if (i > 0 && ticks() - checked > signals_after && on_main_thread()) {
                handle_signals(x, thread, inside);
                checked = ticks();
            }
            if (!s.compiled) {
                take_gil_again(thread);
                // The last partition may still be running on an asynchronous runtime.
                if (!x.synchronous) stream_.wait();
                inside.leave();
                call_python(x, s, inputs, outputs);
                inside.enter(x.threads, [&] { return x.name; });
                thread = PyEval_SaveThread();
                if (times) times->push_back(ticks());
                continue;
            }
            call &c = calls_[i];
            // A step may have been compiled for fewer threads than others.
            const threads_scope fewer(at_most(s.compiled->threads));
            const auto execute = [&] {
                const auto turn = s.compiled->turn();
#if OGP_ONEDNN_AT_LEAST(3, 13)
                return dnnl_graph_compiled_partition_execute_v2(s.compiled->value.get(),
                        stream_.get(), c.input_count, c.inputs.data(), c.output_count,
                        c.outputs.data(), c.scratchpad);
#else
                return dnnl_graph_compiled_partition_execute(s.compiled->value.get(), stream_.get(),
                        c.input_count, c.inputs.data(), c.output_count, c.outputs.data());
#endif
            };
            try {
                status = s.writing ? s.writing->around(x.engine_->kind(), stream_.get(), 0, execute)
                                   : execute();
            } catch (const dnnl::error &e) {
                status = e.status;
            } catch (const std::bad_alloc &) {
                status = dnnl_out_of_memory;
            } catch (...) {
                status = dnnl_runtime_error;
            }
            if (times && status == dnnl_success) {
                if (!x.synchronous) status = dnnl_stream_wait(stream_.get());
                times->push_back(ticks());
            }
            if (status != dnnl_success) return i;
        }
        if (!x.synchronous) status = dnnl_stream_wait(stream_.get());
        return x.steps.size();
    }

private:
    struct call {
        std::vector<const_dnnl_graph_tensor_t> inputs, outputs;
        size_t input_count = 0, output_count = 0;
        const_dnnl_graph_tensor_t scratchpad = nullptr;
    };

    dnnl_graph_tensor_t create(
            const executor &x, const dnnl_graph_logical_tensor_t &lt, void *data) {
        dnnl_graph_tensor_t t = nullptr;
        check(dnnl_graph_tensor_create(&t, &lt, x.engine_->get().get(), data), x.name + ": tensor");
        tensors_.emplace_back(t);
        return t;
    }

    void *fixed_address(const executor &x, const argument &a) {
        if (a.where == place::constant)
            return static_cast<char *>(x.constant_data[a.index]) + a.offset;
        return a.where == place::arena && arena_ ? arena_.get() + a.index : nullptr;
    }

    dnnl_graph_tensor_t add(const executor &x, const argument &a) {
        const dnnl_graph_tensor_t t = create(x, a.lt.get(), fixed_address(x, a));
        if (a.where == place::input) from_inputs_.push_back({t, a.index, a.offset});
        if (a.where == place::output) to_outputs_.push_back({t, a.index, a.offset});
        return t;
    }

    dnnl_graph_tensor_t scratchpad(const executor &x, const step &s) {
#if OGP_ONEDNN_AT_LEAST(3, 13)
        const auto lt = s.compiled->value.get_scratchpad_logical_tensor();
        dnnl_graph_logical_tensor_t c{};
        check(dnnl_graph_compiled_partition_get_scratchpad_logical_tensor(
                      s.compiled->value.get(), &c),
                x.name + ": scratchpad");
        (void)lt;
        return create(x, c, arena_ ? arena_.get() + *s.scratchpad : nullptr);
#else
        (void)x;
        (void)s;
        return nullptr;
#endif
    }

    // Lets Python handle signals between two steps of a long call, so that Ctrl-C ends it early.
    void handle_signals(const executor &x, PyThreadState *&thread, inside_onednn &inside) {
        take_gil_again(thread);
        inside.leave();
        if (PyErr_CheckSignals() != 0) {
            // Before the caller may free arrays, as after a Python step.
            if (!x.synchronous) stream_.wait();
            throw py::error_already_set();
        }
        inside.enter(x.threads, [&] { return x.name; });
        thread = PyEval_SaveThread();
    }

    void call_python(const executor &x, const step &s, const executor::arrays &inputs,
            const executor::arrays &outputs) {
        const py::object arena = owner_of(arena_);
        const auto view = [&](const argument &a, const edge &e, bool writable) {
            if (a.where == place::constant)
                return view_of(e, fixed_address(x, a), x.constants[a.index], writable);
            if (a.where == place::arena) return view_of(e, fixed_address(x, a), arena, writable);
            const executor::arrays &of = a.where == place::input ? inputs : outputs;
            return view_of(e, static_cast<char *>(of.data[a.index]) + a.offset, of.held[a.index],
                    writable);
        };
        const auto views = [&](const std::vector<argument> &arguments,
                                   const std::vector<edge> &edges, bool writable) {
            py::list made(arguments.size());
            for (size_t i = 0; i < arguments.size(); ++i)
                made[i] = view(arguments[i], edges[i], writable);
            return made;
        };
        s.function(views(s.inputs, s.read, false), views(s.outputs, s.written, true));
    }

    static dnnl::stream stream_of(const executor &x) {
        const inside_onednn inside(x.threads, [&] { return x.name; });
        const dnnl::engine &e = x.engine_->get();
        dnnl::stream made = x.engine_->take_stream();
        if (made) return made;
        PyThreadState *thread = PyEval_SaveThread();
        try {
            made = dnnl::stream(e);
        } catch (...) {
            take_gil_again(thread);
            throw;
        }
        take_gil_again(thread);
        return made;
    }

    aligned_memory arena_;
    engine_ptr engine_;
    dnnl::stream stream_;
    std::vector<tensor_handle> tensors_;
    std::vector<call> calls_;
    // A tensor over an array of the caller, from a byte of it on.
    struct port {
        dnnl_graph_tensor_t tensor;
        size_t index, offset;
        void *of(const std::pmr::vector<void *> &arrays) const {
            return static_cast<char *>(arrays[index]) + offset;
        }
    };
    std::vector<port> from_inputs_, to_outputs_;
};

executor::executor(std::string name_, engine_ptr e, const std::vector<described_edge> &in,
        const std::vector<described_edge> &out, const std::vector<py::array> &constants_,
        const py::list &steps_, size_t arena_bytes_, int threads_, py::function convert,
        py::function check_out)
    : name(std::move(name_)),
      engine_(std::move(e)),
      arena_bytes(arena_bytes_),
      threads(threads_),
      convert_input(std::move(convert)),
      check_output(std::move(check_out)) {
    synchronous = runs_synchronously(engine_->kind());
    for (const auto &[lt, n, dtype, updated] : in) {
        inputs.push_back(make_edge(lt, n, dtype));
        inputs.back().updated = updated;
    }
    for (const auto &[lt, n, dtype, updated] : out) outputs.push_back(make_edge(lt, n, dtype));
    for (const auto &c : constants_) {
        constants.push_back(c);
        constant_data.push_back(const_cast<void *>(c.data()));
        constant_bytes.push_back(static_cast<size_t>(c.nbytes()));
    }
    const auto arguments = [](const py::handle &list) {
        std::vector<argument> made;
        for (const auto &item : list) {
            const auto t = item.cast<py::tuple>();
            made.push_back({place_of(t[0].cast<std::string>()), t[1].cast<size_t>(),
                    t[2].cast<logical_tensor>(), t[3].cast<size_t>()});
        }
        return made;
    };
    for (const auto &item : steps_) {
        const auto t = item.cast<py::tuple>();
        step s;
        s.name = t[0].cast<std::string>();
        if (py::isinstance<compiled_partition>(t[1])) {
            s.compiled = t[1].cast<compiled_partition_ptr>();
        } else
            s.function = t[1];
        s.inputs = arguments(t[2]);
        s.outputs = arguments(t[3]);
        if (!s.compiled) {
            for (const argument &a : s.inputs) s.read.push_back(make_edge(a.lt, ""));
            for (const argument &a : s.outputs) s.written.push_back(make_edge(a.lt, ""));
        }
        if (s.compiled && s.compiled->constants) {
            cached = true;
            std::vector<const void *> addresses;
            size_t bytes = 0;
            for (const argument &a : s.inputs) {
                if (a.where != place::constant || a.index >= constants_.size()) continue;
                addresses.push_back(static_cast<const char *>(constant_data[a.index]) + a.offset);
                bytes += static_cast<size_t>(constants_[a.index].nbytes());
            }
            s.constants = s.compiled->constants->of(addresses, bytes);
            if (s.compiled->may_write_constants && !synchronous)
                s.writing = std::make_unique<constant_writing>();
        }
        if (!t[4].is_none()) s.scratchpad = t[4].cast<size_t>();
        s.why = t[5].cast<std::string>();
        s.implementation = t[6].cast<std::string>();
        check_step(s);
        steps.push_back(std::move(s));
    }
}

executor::~executor() = default;

void executor::hold_constant(size_t index, const py::object &owner) {
    const void *data = nullptr;
    if (py::isinstance<constant_place>(owner))
        data = owner.cast<const constant_place &>().data;
    else if (py::isinstance<py::array>(owner))
        data = py::array(owner).data();
    if (index >= constants.size() || data != constant_data[index])
        raise_invalid_arguments(name + ": constant " + std::to_string(index) + " is elsewhere");
    constants[index] = owner;
}

void executor::check_step(const step &s) const {
    const auto refuse = [&](const std::string &what) {
        raise_invalid_arguments(name + ": step " + s.name + ": " + what);
    };
    const auto check_room = [&](const argument &a, bool written) {
        const size_t needed = required_bytes(a.lt);
        size_t available = 0;
        if (a.where == place::arena) {
            if (a.index <= arena_bytes) available = arena_bytes - a.index;
        } else if (a.where == place::constant) {
            if (written) refuse("writes to a constant");
            if (a.index < constants.size()) available = constant_bytes[a.index];
        } else {
            const auto &edges = a.where == place::input ? inputs : outputs;
            if (written && a.where == place::input
                    && (s.compiled || a.index >= edges.size() || !edges[a.index].updated))
                refuse("writes to an input");
            if (a.index < edges.size()) available = edges[a.index].bytes;
        }
        available -= std::min(available, a.offset);
        if (needed > available)
            refuse(repr(a.lt) + " needs " + std::to_string(needed) + " bytes, there are "
                    + std::to_string(available));
    };
    for (const argument &a : s.inputs) check_room(a, false);
    for (const argument &a : s.outputs) check_room(a, true);
    if (!s.compiled) return;
    const auto check_same = [&](const std::vector<argument> &given,
                                    const std::vector<logical_tensor> &compiled) {
        bool same = given.size() == compiled.size();
        for (size_t i = 0; same && i < given.size(); ++i)
            same = given[i].lt.id() == compiled[i].id()
                    && given[i].lt.dtype() == compiled[i].dtype()
                    && required_bytes(given[i].lt) >= required_bytes(compiled[i]);
        if (!same) refuse("its tensors are not those that it was compiled for");
    };
    check_same(s.inputs, s.compiled->inputs);
    check_same(s.outputs, s.compiled->outputs);
    if (s.scratchpad && *s.scratchpad + s.compiled->scratchpad_bytes > arena_bytes)
        refuse("its scratchpad is outside of the arena");
}

bool executor::conforms(const edge &e, PyObject *object, bool written) const {
    const auto &api = py::detail::npy_api::get();
    if (!api.PyArray_Check_(object)) return false;
    const auto *a = py::detail::array_proxy(object);
    if (a->descr != e.dtype.ptr() && !api.PyArray_EquivTypes_(a->descr, e.dtype.ptr()))
        return false;
    if (static_cast<size_t>(a->nd) != e.shape.size()) return false;
    bool empty = false;
    for (size_t i = 0; i < e.shape.size(); ++i) {
        if (a->dimensions[i] != e.shape[i]) return false;
        empty = empty || e.shape[i] == 0;
    }
    if (!empty)
        for (size_t i = 0; i < e.shape.size(); ++i)
            if (e.shape[i] > 1 && a->strides[i] != e.strides[i]) return false;
    if (reinterpret_cast<uintptr_t>(a->data) % e.alignment) return false;
    return !(written || e.updated) || (a->flags & py::detail::npy_api::NPY_ARRAY_WRITEABLE_);
}

void executor::take_inputs(PyObject *const *given, size_t count, arrays &made) const {
    for (size_t i = 0; i < count; ++i) {
        py::object array = py::reinterpret_borrow<py::object>(given[i]);
        if (!conforms(inputs[i], given[i], false)) {
            array = convert_input(i, array);
            if (!conforms(inputs[i], array.ptr(), false))
                raise_invalid_arguments(name + ": input " + inputs[i].name + " can't be used");
        }
        made.data.push_back(py::detail::array_proxy(array.ptr())->data);
        made.held.push_back(std::move(array));
    }
    for (size_t i = 0; i < count; ++i)
        for (size_t k = 0; inputs[i].updated && k < count; ++k)
            if (k != i
                    && overlap(inputs[i], made.data[i], made.held[i], inputs[k], made.data[k],
                            made.held[k]))
                raise_invalid_arguments(name + ": input " + inputs[i].name
                        + ", which is updated, overlaps the memory of input " + inputs[k].name);
}

void executor::take_outputs(PyObject *out, const arrays &ins, arrays &made) const {
    if (!out || out == Py_None) {
        for (const edge &e : outputs) {
            py::array fresh(e.dtype, e.shape, e.strides);
            made.data.push_back(fresh.mutable_data());
            made.held.push_back(std::move(fresh));
        }
        return;
    }
    std::vector<py::object> given;
    if (outputs.size() == 1 && !PyTuple_Check(out) && !PyList_Check(out)) {
        given.push_back(py::reinterpret_borrow<py::object>(out));
    } else {
        if (!PyTuple_Check(out) && !PyList_Check(out))
            throw py::type_error(name + ": out must be a list or tuple of "
                    + std::to_string(outputs.size()) + " arrays");
        for (const auto &item : py::reinterpret_borrow<py::sequence>(out))
            given.push_back(py::reinterpret_borrow<py::object>(item));
        if (given.size() != outputs.size())
            raise_invalid_arguments(name + ": out must have " + std::to_string(outputs.size())
                    + " arrays, got " + std::to_string(given.size()));
    }
    for (size_t i = 0; i < given.size(); ++i) {
        const edge &e = outputs[i];
        if (!conforms(e, given[i].ptr(), true)) {
            given[i] = check_output(i, given[i]);
            if (!conforms(e, given[i].ptr(), true))
                raise_invalid_arguments(name + ": out " + e.name + " can't be used");
        }
        auto *data = static_cast<char *>(py::detail::array_proxy(given[i].ptr())->data);
        for (size_t k = 0; k < ins.data.size(); ++k)
            if (overlap(e, data, given[i], inputs[k], ins.data[k], ins.held[k]))
                raise_invalid_arguments(name + ": out " + e.name + " overlaps the memory of input "
                        + inputs[k].name);
        for (size_t k = 0; k < i; ++k)
            if (overlap(e, data, given[i], outputs[k], made.data[k], made.held[k]))
                raise_invalid_arguments(name + ": out " + e.name + " overlaps the memory of out "
                        + outputs[k].name);
        made.data.push_back(data);
        made.held.push_back(given[i]);
    }
}

std::unique_ptr<run_context> executor::acquire() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!free_.empty()) {
            auto context = std::move(free_.back());
            free_.pop_back();
            return context;
        }
    }
    if (!before_growing.is_none()) before_growing();
    auto context = std::make_unique<run_context>(*this);
    ++contexts;
    return context;
}

void executor::give_back(std::unique_ptr<run_context> context) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    try {
        free_.push_back(std::move(context));
    } catch (const std::bad_alloc &) {
        --contexts;
    }
}

void executor::use_constants() {
    const uint64_t now = cached_constants::times_emptied(engine_->kind());
    for (const step &s : steps)
        if (s.constants) s.constants->use();
    used_ = now;
}

void executor::run(run_context &context, const arrays &ins, const arrays &outs, bool bound) {
    inside_onednn inside(threads, [&] { return name; });
    require_constant_cache(name, cached, engine_->kind());
    if (cached && used_ != cached_constants::times_emptied(engine_->kind())) use_constants();
    if (!bound) context.set_arrays(ins.data, outs.data);
    const bool timed = recording();
    std::vector<uint64_t> times;  // allocates nothing unless a profile is active
    if (timed) times.reserve(steps.size() + 1);
    const uint64_t begin = ticks();
    dnnl_status_t status = dnnl_success;
    PyThreadState *thread = PyEval_SaveThread();
    // Only a Python step and a signal's handler throw, and they hold the GIL then.
    const size_t done =
            context.run(*this, ins, outs, status, thread, inside, timed ? &times : nullptr);
    take_gil_again(thread);
    ticks_taken += ticks() - begin;
    ++calls;
    if (status != dnnl_success)
        raise_failure(status, name + ": " + (done < steps.size() ? steps[done].name : "wait"));
    if (timed) record(*this, times);
}

namespace {

py::tuple tuple_of(const executor::arrays &arrays) {
    py::tuple made(arrays.held.size());
    for (size_t i = 0; i < arrays.held.size(); ++i) made[i] = arrays.held[i];
    return made;
}

}  // namespace

py::object executor::result(const arrays &outs) const {
    if (outs.held.size() == 1) return outs.held[0];
    return tuple_of(outs);
}

namespace {

class borrowed_context {
public:
    explicit borrowed_context(executor &x) : x_(x), context_(x.acquire()) {}
    ~borrowed_context() { x_.give_back(std::move(context_)); }
    borrowed_context(const borrowed_context &) = delete;
    borrowed_context &operator=(const borrowed_context &) = delete;
    run_context &operator*() const { return *context_; }

private:
    executor &x_;
    std::unique_ptr<run_context> context_;
};

template <typename Body>
PyObject *python_call(Body &&body) noexcept {
    try {
        return body();
    } catch (py::error_already_set &e) {
        e.restore();
    } catch (const py::builtin_exception &e) {
        e.set_error();
    } catch (const std::bad_alloc &) {
        PyErr_NoMemory();
    } catch (const std::exception &e) {
        PyErr_SetString(PyExc_RuntimeError, e.what());
    }
    return nullptr;
}

template <typename T>
T &self_of(PyObject *self, const char *what) {
    auto *value =
            reinterpret_cast<py::detail::instance *>(self)->get_value_and_holder().value_ptr<T>();
    if (!value) raise_invalid_arguments(std::string(what) + ": it was never initialised");
    return *value;
}

// What is given to `out` among keyword arguments; `others` tells whether there are more.
PyObject *out_of(PyObject *kwargs, bool &others) {
    others = false;
    if (!kwargs || !PyDict_GET_SIZE(kwargs)) return nullptr;
    static PyObject *const key = PyUnicode_InternFromString("out");
    PyObject *out = PyDict_GetItemWithError(kwargs, key);
    if (!out && PyErr_Occurred()) throw py::error_already_set();
    others = PyDict_GET_SIZE(kwargs) > (out ? 1 : 0);
    return out;
}

PyObject *run_arrays(executor &x, PyObject *args, PyObject *out) {
    const auto count = static_cast<size_t>(PyTuple_GET_SIZE(args));
    if (count != x.inputs.size())
        raise_invalid_arguments(x.name + ": expected " + std::to_string(x.inputs.size())
                + " inputs, got " + std::to_string(count));
    // Enough for a call with a usual number of arrays to allocate nothing.
    std::array<std::byte, 512> space;
    std::pmr::monotonic_buffer_resource pool(space.data(), space.size());
    executor::arrays ins(&pool), outs(&pool);
    ins.held.reserve(count);
    ins.data.reserve(count);
    outs.held.reserve(x.outputs.size());
    outs.data.reserve(x.outputs.size());
    x.take_inputs(PySequence_Fast_ITEMS(args), count, ins);
    x.take_outputs(out, ins, outs);
    {
        const borrowed_context context(x);
        x.run(*context, ins, outs);
    }
    if (out && out != Py_None) {
        Py_INCREF(out);
        return out;
    }
    return x.result(outs).release().ptr();
}

// executor(*inputs, out=None), without pybind11's dispatch.
PyObject *call_executor(PyObject *self, PyObject *args, PyObject *kwargs) {
    return python_call([&]() -> PyObject * {
        auto &x = self_of<executor>(self, "executor");
        bool others = false;
        PyObject *out = out_of(kwargs, others);
        if (others) throw py::type_error(x.name + ": takes inputs by position, and out");
        return run_arrays(x, args, out);
    });
}

// What a model is called through: at once where its shapes are fixed and inputs come by position,
// else through the method `_call` of the Python class that inherits this one.
struct model_base {
    executor_ptr run;
};

PyObject *call_model(PyObject *self, PyObject *args, PyObject *kwargs) {
    return python_call([&]() -> PyObject * {
        const auto &model = self_of<model_base>(self, "CompiledGraph");
        bool others = false;
        PyObject *out = out_of(kwargs, others);
        if (model.run && !others) return run_arrays(*model.run, args, out);
        static PyObject *const name = PyUnicode_InternFromString("_call");
        const auto method = py::reinterpret_steal<py::object>(PyObject_GetAttr(self, name));
        if (!method) throw py::error_already_set();
        PyObject *result = PyObject_Call(method.ptr(), args, kwargs);
        if (!result) throw py::error_already_set();
        return result;
    });
}

// A call whose arrays are checked and fixed.
struct bound_model {
    executor_ptr x;
    executor::arrays ins{std::pmr::new_delete_resource()}, outs{std::pmr::new_delete_resource()};
    std::unique_ptr<run_context> context;
    std::mutex mutex;        // one arena, so one call at a time
    std::thread::id caller;  // who is inside; with the GIL
    int generation = fork_generation();

    ~bound_model() {
        if (context) x->give_back(std::move(context));
    }

    // Whether somebody gave an array other memory, another shape or made it read-only.
    void check() const {
        const auto unchanged = [&](const std::vector<edge> &edges, const executor::arrays &arrays,
                                       bool written) {
            for (size_t i = 0; i < edges.size(); ++i) {
                PyObject *a = arrays.held[i].ptr();
                if (py::detail::array_proxy(a)->data != arrays.data[i]
                        || !x->conforms(edges[i], a, written))
                    raise_invalid_arguments(x->name + ": bind: " + edges[i].name
                            + " is no longer the array that was bound; bind again");
            }
        };
        unchanged(x->inputs, ins, false);
        unchanged(x->outputs, outs, true);
    }
};

// Who is inside a bound call, for its lifetime.
class inside_bound_call {
public:
    inside_bound_call(std::thread::id &caller, std::thread::id self) : caller_(caller) {
        caller_ = self;
    }
    ~inside_bound_call() { caller_ = {}; }
    inside_bound_call(const inside_bound_call &) = delete;
    inside_bound_call &operator=(const inside_bound_call &) = delete;

private:
    std::thread::id &caller_;
};

PyObject *call_bound_model(PyObject *self, PyObject *args, PyObject *kwargs) {
    return python_call([&]() -> PyObject * {
        auto &b = self_of<bound_model>(self, "bound_model");
        if (PyTuple_GET_SIZE(args) || (kwargs && PyDict_GET_SIZE(kwargs)))
            throw py::type_error("bound_model takes no arguments");
        b.check();
        if (b.generation != fork_generation()) {
            // A thread of the parent may have held it.
            new (&b.mutex) std::mutex;
            b.caller = {};
            b.generation = fork_generation();
        }
        const auto self_id = std::this_thread::get_id();
        if (b.caller == self_id)
            raise_invalid_arguments(b.x->name
                    + ": a host step calls the bound call that it is a step of, which uses the same "
                      "arrays; call the model instead");
        if (!b.mutex.try_lock()) {
            PyThreadState *thread = PyEval_SaveThread();
            b.mutex.lock();
            take_gil_again(thread);
        }
        const std::lock_guard<std::mutex> lock(b.mutex, std::adopt_lock);
        const inside_bound_call inside(b.caller, self_id);
        b.x->run(*b.context, b.ins, b.outs, true);
        Py_RETURN_NONE;
    });
}

std::unique_ptr<bound_model> bind_executor(
        const executor_ptr &x, const py::sequence &inputs, const py::object &out) {
    auto b = std::make_unique<bound_model>();
    b->x = x;
    std::vector<PyObject *> given;
    const py::tuple held = py::tuple(inputs);
    for (const auto &item : held) given.push_back(item.ptr());
    if (given.size() != x->inputs.size())
        raise_invalid_arguments(x->name + ": bind: expected " + std::to_string(x->inputs.size())
                + " inputs, got " + std::to_string(given.size()));
    x->take_inputs(given.data(), given.size(), b->ins);
    x->take_outputs(out.ptr(), b->ins, b->outs);
    b->context = x->acquire();
    b->context->set_arrays(b->ins.data, b->outs.data);
    return b;
}

}  // namespace

void init_executor(py::module_ &m) {
    py::class_<bound_model>(m, "bound_model", py::custom_type_setup([](PyHeapTypeObject *type) {
        type->ht_type.tp_call = call_bound_model;
    }),
            "A model with its inputs and outputs, made by `CompiledGraph.bind`; call it without\n"
            "arguments. It reads what the arrays hold at that time.")
            .def_property_readonly(
                    "inputs", [](const bound_model &b) { return tuple_of(b.ins); },
                    "The arrays it reads; a copy where the given one could not be used as it was.")
            .def_property_readonly(
                    "outputs", [](const bound_model &b) { return tuple_of(b.outs); },
                    "The arrays it writes.")
            .def("__repr__", [](const bound_model &b) { return "bound_model(" + b.x->name + ")"; });

    py::class_<executor, executor_ptr> cls(m, "_executor",
            py::custom_type_setup(
                    [](PyHeapTypeObject *type) { type->ht_type.tp_call = call_executor; }),
            "All steps of a compiled graph in one call: ``executor(*inputs, out=None)``. Made by\n"
            "`CompiledGraph`, which explains the rest.");
    cls.def(py::init<std::string, engine_ptr, const std::vector<described_edge> &,
                    const std::vector<described_edge> &, const std::vector<py::array> &,
                    const py::list &, size_t, int, py::function, py::function>(),
               py::arg("name"), py::arg("engine"), py::arg("inputs"), py::arg("outputs"),
               py::arg("constants"), py::arg("steps"), py::arg("arena_bytes"), py::arg("threads"),
               py::arg("convert_input"), py::arg("check_output"))
            .def("bind", &bind_executor, py::arg("inputs"), py::arg("out") = py::none(),
                    "Fixes the arrays; see `CompiledGraph.bind`.")
            .def("hold_constant", &executor::hold_constant, py::arg("index"), py::arg("owner"),
                    "Holds a constant by another object: its `_constant_place`, or an array there.")
            .def(
                    "ask_before_growing",
                    [](executor &x, py::object f) { x.before_growing = std::move(f); },
                    py::arg("function"),
                    "Has a function called before memory for one more call at a time is allocated;\n"
                    "it may raise.")
            .def_property_readonly(
                    "calls", [](const executor &x) { return x.calls.load(); }, "How often it ran.")
            .def_property_readonly(
                    "seconds", [](const executor &x) { return x.rate.seconds(x.ticks_taken); },
                    "The time of all calls together, in seconds.")
            .def_property_readonly(
                    "contexts", [](const executor &x) { return x.contexts.load(); },
                    "The largest number of calls that ran at once; each has its own arena.")
            .def_static(
                    "reordered_again",
                    [](const std::vector<executor_ptr> &given) {
                        size_t bytes = 0;
                        std::set<const cached_constants *> counted;
                        for (const auto &x : given)
                            for (const step &s : x->steps)
                                if (s.constants && counted.insert(s.constants.get()).second)
                                    bytes += s.constants->made_again();
                        return bytes;
                    },
                    py::arg("executors"),
                    "How many bytes of constants were reordered once more, because oneDNN's cache had\n"
                    "been emptied. Constants that several share count once.")
            .def("__repr__", [](const executor &x) {
                return "executor(" + x.name + ", " + std::to_string(x.steps.size()) + " steps)";
            });

    py::class_<model_base>(m, "_model_base", py::custom_type_setup([](PyHeapTypeObject *type) {
        type->ht_type.tp_call = call_model;
    }),
            "How a `CompiledGraph` is called.")
            .def(py::init<>())
            .def_readwrite("_run", &model_base::run, "The executor, where all shapes are fixed.");
}

}  // namespace ogp
