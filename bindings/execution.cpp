#include "execution.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory_resource>

#include "caches.hpp"
#include "call.hpp"
#include "cpu_runtime.hpp"
#include "dtypes.hpp"

namespace ogp {
namespace {

// The C++ object behind a Python tensor, null for anything else. The exact type, by far the most
// frequent, is known without pybind11's search through its registry.
tensor *tensor_of(PyObject *object) {
    static const auto *type = reinterpret_cast<PyTypeObject *>(py::type::of<tensor>().ptr());
    if (Py_TYPE(object) == type)
        return reinterpret_cast<py::detail::instance *>(object)
                ->get_value_and_holder()
                .value_ptr<tensor>();
    py::detail::make_caster<tensor> caster;
    if (object == Py_None || !caster.load(object, false)) return nullptr;
    return py::detail::cast_op<tensor *>(caster);
}

// The tensors of one call, owned: somebody may change the caller's list, or a tensor's memory,
// while the call runs without the GIL. Where they are kept is the caller's to say, so that a call
// with a usual number of tensors allocates nothing.
class tensor_list {
public:
    explicit tensor_list(std::pmr::memory_resource *pool) : items_(pool), handles_(pool) {}
    ~tensor_list() {
        for (const auto &item : items_) Py_DECREF(item.object);
    }
    tensor_list(const tensor_list &) = delete;
    tensor_list &operator=(const tensor_list &) = delete;

    // From a list or tuple of tensors; `what` names one in messages.
    void take(py::handle sequence, const char *what, const compiled_partition &cp) {
        PyObject *list = sequence.ptr();
        const bool is_list = PyList_Check(list);
        if (!is_list && !PyTuple_Check(list))
            throw py::type_error(cp.name + ": execute: " + what
                    + "s must be a list or tuple of tensor, got "
                    + py::repr(py::type::of(sequence)).cast<std::string>());
        const Py_ssize_t n = is_list ? PyList_GET_SIZE(list) : PyTuple_GET_SIZE(list);
        items_.reserve(static_cast<size_t>(n));
        for (Py_ssize_t i = 0; i < n; ++i) {
            PyObject *object = is_list ? PyList_GET_ITEM(list, i) : PyTuple_GET_ITEM(list, i);
            tensor *value = tensor_of(object);
            if (!value)
                throw py::type_error(cp.name + ": execute: " + what + " " + std::to_string(i)
                        + " must be a tensor, got "
                        + py::repr(py::type::of(object)).cast<std::string>());
            Py_INCREF(object);
            items_.push_back({object, value});
        }
    }

    size_t size() const { return items_.size(); }
    tensor &operator[](size_t i) const { return *items_[i].value; }

    // The C handles, as they are now.
    void resolve() {
        handles_.clear();
        handles_.reserve(items_.size());
        for (const auto &item : items_) handles_.push_back(item.value->value.get());
    }
    const std::pmr::vector<const_dnnl_graph_tensor_t> &handles() const { return handles_; }

    uint64_t generation() const {
        uint64_t sum = 0;
        for (const auto &item : items_) sum += item.value->generation;
        return sum;
    }

    void count_use(int by) const {
        for (const auto &item : items_) item.value->in_use += by;
    }

    bool are_read_unasked() const {
        return std::any_of(items_.begin(), items_.end(),
                [](const entry &item) { return item.value->memory->is_read_unasked(); });
    }

    void add_memory(std::vector<memory_ptr> &to) const {
        for (const auto &item : items_) to.push_back(item.value->memory);
    }

private:
    struct entry {
        PyObject *object;
        tensor *value;
    };
    std::pmr::vector<entry> items_;
    std::pmr::vector<const_dnnl_graph_tensor_t> handles_;
};

std::string context(const compiled_partition &cp) { return cp.name + ": execute: "; }

bool same_layout(const logical_tensor &a, const logical_tensor &b) {
    const auto &x = a.data, &y = b.data;
    if (x.ndims != y.ndims || !std::equal(x.dims, x.dims + std::max(x.ndims, 0), y.dims))
        return false;
    if (x.ndims == 0) return true;
    if (x.layout_type != y.layout_type) return false;
    if (x.layout_type == dnnl_graph_layout_type_opaque)
        return x.layout.layout_id == y.layout.layout_id;
    // The stride of a dim of one element is never used.
    for (int i = 0; i < x.ndims; ++i)
        if (x.dims[i] > 1 && x.layout.strides[i] != y.layout.strides[i]) return false;
    return true;
}

// A host scalar has a value where other tensors have memory (from oneDNN 3.9 on).
bool is_host_scalar(const logical_tensor &lt) {
#if OGP_ONEDNN_AT_LEAST(3, 9)
    return lt.property() == property_type::host_scalar;
#else
    (void)lt;
    return false;
#endif
}

void check_tensor(const compiled_partition &cp, const tensor &given, const logical_tensor &expected,
        const char *what, size_t position) {
    if (given.value && given.lt.id() == expected.id() && given.lt.dtype() == expected.dtype()
            && same_layout(given.lt, expected)
            && is_host_scalar(given.lt) == is_host_scalar(expected))
        return;
    given.require();
    const std::string where = context(cp) + what + " " + std::to_string(position) + ": expected "
            + repr(expected) + ", got " + repr(given);
    if (given.lt.id() != expected.id())
        raise_invalid_arguments(
                where + "; tensors go in the order of the logical tensors given to compile");
    if (given.lt.dtype() != expected.dtype()) raise_invalid_data_type(where);
    if (!same_layout(given.lt, expected)) raise_invalid_shape(where);
    raise_invalid_arguments(where);  // a host scalar where memory is expected, or the reverse
}

bool ranges_overlap(const tensor &a, const tensor &b) {
    const auto *x = static_cast<const char *>(a.memory->data);
    const auto *y = static_cast<const char *>(b.memory->data);
    return a.memory->bytes && b.memory->bytes && x < y + b.memory->bytes && y < x + a.memory->bytes;
}

// Strided views may interleave in one range without sharing an element; NumPy can tell.
bool share_elements(const tensor &a, const tensor &b) {
    return py::module_::import("numpy")
            .attr("shares_memory")(array_over(a.memory, a.lt), array_over(b.memory, b.lt))
            .cast<bool>();
}

void check_outputs(const compiled_partition &cp, const tensor_list &inputs,
        const tensor_list &outputs, const tensor *scratchpad) {
    for (size_t o = 0; o < outputs.size(); ++o) {
        const tensor &out = outputs[o];
        if (!out.memory->writable)
            raise_invalid_arguments(context(cp) + "output " + std::to_string(o) + ", " + repr(out)
                    + ", is read-only memory");
        for (size_t i = 0; i < inputs.size(); ++i) {
            const tensor &in = inputs[i];
            if (!ranges_overlap(in, out)) continue;
            const bool in_place = in.memory->data == out.memory->data
                    && std::any_of(cp.inplace_ports.begin(), cp.inplace_ports.end(),
                            [&](const auto &pair) {
                                return pair.first == in.lt.id() && pair.second == out.lt.id();
                            });
            if (!in_place && share_elements(in, out))
                raise_invalid_arguments(context(cp) + "output " + repr(out)
                        + " overlaps the memory of input " + repr(in)
                        + ", and the two are not a pair of get_inplace_ports()");
        }
        for (size_t other = 0; other < o; ++other)
            if (ranges_overlap(outputs[other], out) && share_elements(outputs[other], out))
                raise_invalid_arguments(context(cp) + "outputs " + repr(outputs[other]) + " and "
                        + repr(out) + " overlap in memory");
        if (scratchpad && ranges_overlap(*scratchpad, out))
            raise_invalid_arguments(context(cp) + "the scratchpad overlaps output " + repr(out));
    }
    if (scratchpad)
        for (size_t i = 0; i < inputs.size(); ++i)
            if (ranges_overlap(*scratchpad, inputs[i]))
                raise_invalid_arguments(
                        context(cp) + "the scratchpad overlaps input " + repr(inputs[i]));
}

void check_list(const compiled_partition &cp, const tensor_list &given,
        const std::vector<logical_tensor> &expected, const char *what) {
    if (given.size() != expected.size())
        raise_invalid_arguments(context(cp) + "expected " + std::to_string(expected.size()) + " "
                + what + "s, got " + std::to_string(given.size()));
    for (size_t i = 0; i < given.size(); ++i) check_tensor(cp, given[i], expected[i], what, i);
}

tensor *scratchpad_of(py::handle scratchpad, const compiled_partition &cp) {
    if (scratchpad.is_none()) return nullptr;
#if !OGP_ONEDNN_AT_LEAST(3, 13)
    raise_needs_version(context(cp) + "scratchpad", "3.13");
#endif
    tensor *value = tensor_of(scratchpad.ptr());
    if (!value)
        throw py::type_error(context(cp) + "scratchpad must be a tensor, got "
                + py::repr(py::type::of(scratchpad)).cast<std::string>());
    return value;
}

// A call in terms of oneDNN's C API.
handle_arguments handles_of(const compiled_partition &cp, const stream &s,
        const tensor_list &inputs, const tensor_list &outputs, const tensor *scratchpad) {
    static const_dnnl_graph_tensor_t none[1] = {nullptr};
    const auto array = [&](const tensor_list &list) {
        // oneDNN refuses null arrays, also empty ones; its signature lacks a const.
        return list.size() ? const_cast<const_dnnl_graph_tensor_t *>(list.handles().data()) : none;
    };
    return {cp.value.get(), s.value.get(), inputs.size(), array(inputs), outputs.size(),
            array(outputs), scratchpad ? scratchpad->value.get() : nullptr};
}

dnnl_status_t submit(const handle_arguments &a) {
#if OGP_ONEDNN_AT_LEAST(3, 13)
    return dnnl_graph_compiled_partition_execute_v2(a.compiled_partition, a.stream, a.input_count,
            a.inputs, a.output_count, a.outputs, a.scratchpad);
#else
    return dnnl_graph_compiled_partition_execute(
            a.compiled_partition, a.stream, a.input_count, a.inputs, a.output_count, a.outputs);
#endif
}

template <typename Submit>
dnnl_status_t call(const Submit &submit, const handle_arguments &a, std::string &why) noexcept {
    try {
        return submit(a);
    } catch (const dnnl::error &e) {
        return e.status;
    } catch (const std::bad_alloc &) {
        return dnnl_out_of_memory;
    } catch (const std::exception &e) {
        why = e.what();  // SYCL's, for example
        return dnnl_runtime_error;
    } catch (...) {
        return dnnl_runtime_error;
    }
}

// A number that other constants than these do not have.
size_t number_of_constants(const compiled_partition &cp, const tensor_list &inputs) {
    size_t number = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
        if (cp.inputs[i].property() != property_type::constant) continue;
        void *data = nullptr;
        dnnl_graph_tensor_get_data_handle(inputs.handles()[i], &data);
        number = number * 31 + std::hash<void *>()(data);
    }
    return number;
}

// Runs what was checked and resolved; raises when oneDNN fails.
template <typename Submit>
void run(const Submit &submit, const compiled_partition &cp, const stream &s,
        const tensor_list &inputs, const tensor_list &outputs, tensor *scratchpad) {
    const inside_onednn inside(cp.threads, [&] { return cp.name + ": execute"; });
    require_constant_cache(cp.name + ": execute", cp.constants != nullptr, cp.engine_->kind());
    if (cp.constants) cp.constants->use();
    const bool may_write = cp.may_write_constants && !runs_synchronously(cp.engine_->kind());
    const size_t constants = may_write ? number_of_constants(cp, inputs) : 0;
    // In use: nobody swaps a tensor's memory meanwhile.
    const auto count_use = [&](int by) {
        inputs.count_use(by);
        outputs.count_use(by);
        if (scratchpad) scratchpad->in_use += by;
    };
    const handle_arguments arguments = handles_of(cp, s, inputs, outputs, scratchpad);
    std::string why;
    const threads_scope threads(at_most(cp.threads));
    count_use(1);
    // Plain save and restore: py::gil_scoped_release costs as much as the rest of a small call.
    PyThreadState *thread = PyEval_SaveThread();
    const auto execute = [&] {
        const auto turn = cp.turn();
        return call(submit, arguments, why);
    };
    const dnnl_status_t status = may_write
            ? cp.writing.around(cp.engine_->kind(), arguments.stream, constants, execute)
            : execute();
    take_gil_again(thread);
    count_use(-1);
    if (status != dnnl_success) raise_failure(status, {cp.name + ": execute", why});
}

// What an execution uses, and has to stay until it is done.
std::vector<memory_ptr> memory_of(
        const tensor_list &inputs, const tensor_list &outputs, const tensor *scratchpad) {
    std::vector<memory_ptr> all;
    inputs.add_memory(all);
    outputs.add_memory(all);
    if (scratchpad) all.push_back(scratchpad->memory);
    return all;
}

void note_writer(stream &s, const tensor_list &outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].memory->writer = s.weak_from_this();
}

// Runs, and has the stream keep what is used where oneDNN is not done on return.
void run_and_keep(const compiled_partition_ptr &cp, stream &s, const tensor_list &inputs,
        const tensor_list &outputs, tensor *scratchpad, bool synchronous, bool wait) {
    if (!synchronous) {
        // Before the call: when it fails, a part of the work may have been submitted.
        for (const auto &memory : memory_of(inputs, outputs, scratchpad)) s.keep(memory);
        s.keep(cp);
        note_writer(s, outputs);
    }
    run(submit, *cp, s, inputs, outputs, scratchpad);
    if (!synchronous && wait && outputs.are_read_unasked()) s.wait();
}

void check_execution(const compiled_partition &cp, const stream &s, const tensor_list &inputs,
        const tensor_list &outputs, const tensor *scratchpad) {
    cp.get();
    if (!s.value)
        raise_invalid_arguments(context(cp) + "the stream is empty (default-constructed)");
    if (s.engine_->value != cp.engine_->value)
        raise_invalid_arguments(context(cp) + "the stream must be of the engine object that the "
                "partition was compiled for; both are " + repr(*s.engine_)
                + " but not the same object");
    check_list(cp, inputs, cp.inputs, "input");
    check_list(cp, outputs, cp.outputs, "output");
    if (scratchpad) {
        scratchpad->require();
        if (scratchpad->memory->bytes < cp.scratchpad_bytes)
            raise_invalid_shape(context(cp) + "the scratchpad must have "
                    + std::to_string(cp.scratchpad_bytes) + " bytes, got " + repr(*scratchpad));
        if (!scratchpad->memory->writable)
            raise_invalid_arguments(context(cp) + "the scratchpad is read-only memory");
    }
    check_outputs(cp, inputs, outputs, scratchpad);
}

// Everything a call needs, resolved; keeps the Python objects behind it.
struct bound_execution {
    py::object cp_object, stream_object, scratchpad_object;
    compiled_partition_ptr cp;
    stream *s;
    tensor_list inputs{std::pmr::new_delete_resource()};
    tensor_list outputs{std::pmr::new_delete_resource()};
    tensor *scratchpad;
    uint64_t generation = 0;
    bool synchronous = false;
    bool wait = true;

    uint64_t current_generation() const {
        return inputs.generation() + outputs.generation()
                + (scratchpad ? scratchpad->generation : 0);
    }

    void resolve() {
        check_execution(*cp, *s, inputs, outputs, scratchpad);
        inputs.resolve();
        outputs.resolve();
        synchronous = runs_synchronously(cp->engine_->kind());
        generation = current_generation();
    }

    void operator()() {
        if (current_generation() != generation) resolve();
        run_and_keep(cp, *s, inputs, outputs, scratchpad, synchronous, wait);
    }
};

// Python calls a type's tp_call without pybind11's dispatch, which would cost more than the call.
PyObject *call_bound(PyObject *self, PyObject *args, PyObject *kwargs) {
    if (PyTuple_GET_SIZE(args) || (kwargs && PyDict_GET_SIZE(kwargs))) {
        PyErr_SetString(PyExc_TypeError, "bound_execution takes no arguments");
        return nullptr;
    }
    try {
        auto *b = reinterpret_cast<py::detail::instance *>(self)
                          ->get_value_and_holder()
                          .value_ptr<bound_execution>();
        if (!b) raise_invalid_arguments("bound_execution: made without compiled_partition.bind");
        (*b)();
    } catch (py::error_already_set &e) {
        e.restore();
        return nullptr;
    } catch (const std::bad_alloc &) {
        return PyErr_NoMemory();
    }
    Py_RETURN_NONE;
}

// The tensors of one call by `execute`, checked and resolved.
struct call_tensors {
    std::array<std::byte, 1024> space;
    std::pmr::monotonic_buffer_resource pool{space.data(), space.size()};
    tensor_list inputs{&pool}, outputs{&pool};
    tensor *scratchpad;

    call_tensors(compiled_partition &cp, stream &s, py::handle ins, py::handle outs,
            py::handle scratch) {
        cp.get();
        inputs.take(ins, "input", cp);
        outputs.take(outs, "output", cp);
        scratchpad = scratchpad_of(scratch, cp);
        check_execution(cp, s, inputs, outputs, scratchpad);
        inputs.resolve();
        outputs.resolve();
    }
};

void execute(const compiled_partition_ptr &cp, stream &s, py::handle inputs, py::handle outputs,
        py::handle scratchpad, bool wait) {
    const call_tensors tensors(*cp, s, inputs, outputs, scratchpad);
    run_and_keep(cp, s, tensors.inputs, tensors.outputs, tensors.scratchpad,
            runs_synchronously(cp->engine_->kind()), wait);
}

std::unique_ptr<bound_execution> bind(py::object cp, py::object s, const py::object &inputs,
        const py::object &outputs, const py::object &scratchpad, bool wait) {
    auto b = std::make_unique<bound_execution>();
    b->cp = cp.cast<compiled_partition_ptr>();
    b->cp->get();
    py::detail::make_caster<stream> stream_caster;
    if (s.is_none() || !stream_caster.load(s, false))
        throw py::type_error(b->cp->name + ": bind: stream must be a stream, got "
                + py::repr(py::type::of(s)).cast<std::string>());
    b->s = py::detail::cast_op<stream *>(stream_caster);
    b->cp_object = cp;
    b->stream_object = s;
    b->scratchpad_object = scratchpad;
    b->wait = wait;
    b->inputs.take(inputs, "input", *b->cp);
    b->outputs.take(outputs, "output", *b->cp);
    b->scratchpad = scratchpad_of(scratchpad, *b->cp);
    b->resolve();
    return b;
}

}  // namespace

void execute_with_event(const submit_function &submit, const py::object &is_complete,
        const compiled_partition_ptr &cp, stream &s, py::handle inputs, py::handle outputs,
        py::handle scratchpad, bool wait) {
    const call_tensors tensors(*cp, s, inputs, outputs, scratchpad);
    std::vector<memory_ptr> used = memory_of(tensors.inputs, tensors.outputs, tensors.scratchpad);
    try {
        run(submit, *cp, s, tensors.inputs, tensors.outputs, tensors.scratchpad);
    } catch (...) {
        // No event tells now, and a part of the work may have been submitted.
        for (const auto &memory : used) s.keep(memory);
        s.keep(cp);
        throw;
    }
    note_writer(s, tensors.outputs);
    s.keep_until(is_complete, std::move(used), cp);
    if (wait && tensors.outputs.are_read_unasked()) s.wait();
}

double time_execute(compiled_partition &cp, stream &s, const py::object &inputs,
        const py::object &outputs, size_t count) {
    cp.get();
    tensor_list ins(std::pmr::new_delete_resource()), outs(std::pmr::new_delete_resource());
    ins.take(inputs, "input", cp);
    outs.take(outputs, "output", cp);
    check_execution(cp, s, ins, outs, nullptr);
    std::vector<dg::tensor> cpp_inputs, cpp_outputs;
    for (size_t i = 0; i < ins.size(); ++i) cpp_inputs.push_back(ins[i].value);
    for (size_t i = 0; i < outs.size(); ++i) cpp_outputs.push_back(outs[i].value);
    const inside_onednn inside(cp.threads, [&] { return cp.name + ": time_execute"; });
    const threads_scope threads(at_most(cp.threads));
    const py::gil_scoped_release release;
    const auto turn = cp.turn();
    const auto begin = std::chrono::steady_clock::now();
    for (size_t i = 0; i < count; ++i) cp.value.execute(s.value, cpp_inputs, cpp_outputs);
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(end - begin).count();
}

void init_execution(py::module_ &m) {
    py::class_<bound_execution>(m, "bound_execution",
            py::custom_type_setup(
                    [](PyHeapTypeObject *type) { type->ht_type.tp_call = call_bound; }),
            "An execution whose tensors are checked and fixed; made by `compiled_partition.bind`.\n\n"
            "Calling it, without arguments, runs without the GIL. When a tensor was given other\n"
            "memory since, everything is checked again first.")
            .def("__repr__", [](const bound_execution &self) {
                return "bound_execution(" + self.cp->name + ")";
            });

    using compiled_class = py::class_<compiled_partition, compiled_partition_ptr>;
    compiled_class cls(m.attr("compiled_partition"));
    cls.def("execute", &execute, py::arg("stream"), py::arg("inputs"), py::arg("outputs"),
               py::arg("scratchpad") = py::none(), py::kw_only(), py::arg("wait") = true,
               "Runs, without the GIL. On a CPU with OpenMP the work is done on return; elsewhere\n"
               "``stream.wait()`` waits for it, and so does reading an output through its tensor.\n\n"
               "Parameters\n----------\n"
               "stream : stream\n    Of the engine that was compiled for.\n"
               "inputs, outputs : list or tuple of tensor\n    In the order given to `compile`.\n"
               "scratchpad : tensor, optional\n    Working memory (oneDNN 3.13).\n"
               "wait : bool\n"
               "    Wait before returning if an output can be read without its tensor: its memory\n"
               "    is the caller's array, or ``numpy()`` or DLPack has given out views. Where not\n"
               "    all work is done on return, an execution that may write constants into oneDNN's\n"
               "    cache, as the first one does, waits anyway: others read them there.\n\n"
               "Raises\n------\n"
               "InvalidArgumentsError\n"
               "    Count or ids differ, an output is read-only, or memory overlaps wrongly.\n"
               "InvalidShapeError, InvalidDataTypeError\n"
               "    A tensor is not what was compiled for.")
            .def("bind", &bind, py::arg("stream"), py::arg("inputs"), py::arg("outputs"),
                    py::arg("scratchpad") = py::none(), py::kw_only(), py::arg("wait") = true,
                    "Checks now what `execute` would check at each call.\n\n"
                    "Returns\n-------\nbound_execution\n"
                    "    Callable without arguments; keeps all it uses alive.\n\n"
                    "Raises\n------\nOneDNNError\n    As `execute`.");
}

}  // namespace ogp
