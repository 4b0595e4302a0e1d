#include "memory.hpp"

#include "address.hpp"
#include "arguments.hpp"
#include "dlpack.hpp"
#include "dtypes.hpp"
#include "errors.hpp"
#include "stream.hpp"

namespace ogp {
namespace {

std::string context(const logical_tensor &lt) { return "tensor of " + repr(lt) + ": "; }

std::string tuple_text(const dims &values) {
    std::string text = "(";
    for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
    return text + (values.size() == 1 ? ",)" : ")");
}

int64_t count(const dims &shape) {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
}

bool row_major(const dims &shape, const dims &strides) {
    int64_t expected = 1;
    for (size_t i = shape.size(); i-- > 0;) {
        if (shape[i] == 0) return true;
        if (shape[i] != 1 && strides[i] != expected) return false;
        expected *= shape[i];
    }
    return true;
}

bool is_opaque(const logical_tensor &lt) { return lt.layout() == layout_type::opaque; }

size_t item_bytes(const logical_tensor &lt) {
    return is_opaque(lt) || is_packed(lt) ? 1 : static_cast<size_t>(info_of(lt.dtype()).bits / 8);
}

void check_alignment(const void *data, const logical_tensor &lt) {
    const size_t item = item_bytes(lt);
    if (reinterpret_cast<uintptr_t>(data) % item != 0)
        raise_invalid_arguments(context(lt) + "its memory must be aligned to "
                + std::to_string(item) + " bytes, the address given is not");
}

// Elements of a typed array, as its producer describes them; strides count elements.
void check_elements(const logical_tensor &lt, const dims &shape, const dims &strides) {
    const size_t required = required_bytes(lt);
    const bool flat = shape.size() == 1 && row_major(shape, strides);
    if (is_opaque(lt) || is_packed(lt)) {
        const char *why = is_packed(lt) ? "two elements a byte" : "an opaque layout";
        if (!flat || static_cast<size_t>(shape[0]) < required)
            raise_invalid_shape(context(lt) + "expected a contiguous 1-D uint8 array of "
                    + std::to_string(required) + " bytes (" + why + "), got shape "
                    + tuple_text(shape));
        return;
    }
    const dims expected = lt.shape();
    if (shape == expected) {
        const dims expected_strides = lt.strides();
        if (lt.ndims() == 0 || count(expected) == 0) return;
        for (size_t i = 0; i < shape.size(); ++i) {
            if (shape[i] > 1 && strides[i] != expected_strides[i])
                raise_invalid_shape(context(lt) + "expected strides " + tuple_text(expected_strides)
                        + " (in elements), the array has " + tuple_text(strides)
                        + "; make the logical tensor with the array's strides, or a copy of the "
                          "array in this layout");
        }
        return;
    }
    // A flat array of just the right size is taken as the raw memory of any layout.
    if (flat && expected.size() != 1 && static_cast<size_t>(shape[0]) * item_bytes(lt) == required)
        return;
    raise_invalid_shape(
            context(lt) + "expected shape " + tuple_text(expected) + ", got " + tuple_text(shape));
}

void check_raw_size(const logical_tensor &lt, size_t bytes) {
    const size_t required = required_bytes(lt);
    if (bytes < required)
        raise_invalid_shape(context(lt) + "expected at least " + std::to_string(required)
                + " bytes, got " + std::to_string(bytes));
}

memory_ptr from_array(const py::array &array, const logical_tensor &lt, bool raw_bytes) {
    const py::dtype dtype = array.dtype();
    const py::dtype expected = is_opaque(lt) ? py::dtype("uint8") : numpy_dtype(lt.dtype());
    const auto itemsize = static_cast<int64_t>(dtype.itemsize());
    const bool raw = raw_bytes && array.ndim() == 1 && dtype.equal(py::dtype("uint8"));
    if (!raw && !dtype.equal(expected)) {
        std::string message = context(lt) + "expected an array of dtype "
                + py::str(expected).cast<std::string>() + ", got "
                + py::str(dtype).cast<std::string>();
        if (is_packed(lt) && !is_opaque(lt))
            message += "; s4 and u4 are packed two to a byte, see onednn_graph_py.dtypes.pack_int4";
        raise_invalid_data_type(message);
    }
    dims shape(array.shape(), array.shape() + array.ndim());
    dims strides;
    for (py::ssize_t i = 0; i < array.ndim(); ++i) {
        const int64_t bytes = array.strides(i);
        if (shape[static_cast<size_t>(i)] > 1 && bytes < 0)
            raise_invalid_shape(context(lt) + "the array has negative strides, which oneDNN can't "
                    "take; pass numpy.ascontiguousarray(array)");
        if (shape[static_cast<size_t>(i)] > 1 && bytes % itemsize != 0)
            raise_invalid_shape(context(lt) + "the array's strides are not whole elements; pass "
                    "numpy.ascontiguousarray(array)");
        strides.push_back(bytes / itemsize);
    }
    auto memory = std::make_shared<memory_block>();
    memory->owner = array;
    memory->is_an_array = true;
    memory->data = const_cast<void *>(array.data());
    memory->writable = array.writeable();
    if (raw) {
        if (!row_major(shape, strides))
            raise_invalid_shape(context(lt) + "raw bytes must be contiguous");
        check_raw_size(lt, static_cast<size_t>(shape[0]));
    } else {
        check_elements(lt, shape, strides);
    }
    memory->bytes = required_bytes(lt);
    if (memory->bytes) check_alignment(memory->data, lt);
    return memory;
}

// Takes a capsule over: after this the managed tensor is ours to delete.
template <typename Managed>
py::object take_managed(const py::capsule &capsule, const char *name, const char *used_name) {
    auto *managed = static_cast<Managed *>(PyCapsule_GetPointer(capsule.ptr(), name));
    if (!managed) throw py::error_already_set();
    if (PyCapsule_SetName(capsule.ptr(), used_name) != 0) throw py::error_already_set();
    return py::capsule(managed, [](void *pointer) {
        auto *m = static_cast<Managed *>(pointer);
        if (m->deleter) m->deleter(m);
    });
}

int dlpack_device_type(py::handle source) {
    const auto device = source.attr("__dlpack_device__")().cast<py::tuple>();
    if (device.size() != 2) throw py::type_error("__dlpack_device__ must return a pair");
    return py::int_(device[0]).cast<int>();
}

void check_not_null(const void *data, const logical_tensor &lt) {
    if (!data) raise_invalid_arguments(context(lt) + "its memory must not be the null address");
}

memory_ptr from_dlpack(py::handle source, const logical_tensor &lt, bool of_sycl) {
    const int device_type = dlpack_device_type(source);
    if (device_type != dlpack::device_cpu && !(of_sycl && device_type == dlpack::device_sycl))
        raise_invalid_arguments(context(lt) + "expected memory on the CPU (DLPack device type 1), "
                "got DLPack device type " + std::to_string(device_type));

    // torch's DLPack leaves the sign out that a lazily negated tensor still owes.
    if (py::hasattr(source, "is_neg") && source.attr("is_neg")().cast<bool>())
        raise_invalid_arguments(context(lt) + "the tensor has torch's negative bit, which DLPack "
                "can't say; pass its resolve_neg()");

    py::object result;
    try {
        result = source.attr("__dlpack__")(py::arg("max_version") = py::make_tuple(1, 0));
    } catch (py::error_already_set &e) {
        if (!e.matches(PyExc_TypeError)) throw;
        result = source.attr("__dlpack__")();  // a producer from before DLPack 1.0
    }
    if (!PyCapsule_CheckExact(result.ptr()))
        throw py::type_error("__dlpack__ must return a capsule");
    const auto capsule = result.cast<py::capsule>();
    auto memory = std::make_shared<memory_block>();
    memory->is_an_array = true;
    const dlpack::tensor *t = nullptr;
    if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
        auto *managed = static_cast<dlpack::managed_versioned *>(
                PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
        if (managed->version.major != 1)
            throw py::buffer_error(
                    "unsupported DLPack version " + std::to_string(managed->version.major));
        memory->writable = !(managed->flags & dlpack::flag_read_only);
        t = &managed->dl_tensor;
        memory->owner = take_managed<dlpack::managed_versioned>(
                capsule, "dltensor_versioned", "used_dltensor_versioned");
    } else {
        auto *managed =
                static_cast<dlpack::managed *>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
        if (!managed) throw py::error_already_set();
        t = &managed->dl_tensor;
        memory->owner = take_managed<dlpack::managed>(capsule, "dltensor", "used_dltensor");
    }

    const auto &info = info_of(is_opaque(lt) || is_packed(lt) ? data_type::u8 : lt.dtype());
    if (t->device.type != device_type)
        raise_invalid_arguments(context(lt) + "expected memory on "
                + (device_type == dlpack::device_cpu ? "the CPU" : "a SYCL device")
                + ", as __dlpack_device__ says; __dlpack__ gives DLPack device type "
                + std::to_string(t->device.type));
    if (t->dtype.code != info.dlpack_code || t->dtype.bits != info.bits || t->dtype.lanes != 1)
        raise_invalid_data_type(context(lt) + "expected elements of type " + enum_name(info.type)
                + ", got DLPack type code " + std::to_string(t->dtype.code) + " with "
                + std::to_string(t->dtype.bits) + " bits");
    if (t->ndim < 0 || (t->ndim > 0 && !t->shape))
        raise_invalid_shape(context(lt) + "DLPack's tensor has " + std::to_string(t->ndim)
                + " dims, and no shape");
    const dims shape(t->shape, t->shape + t->ndim);
    dims strides(shape.size(), 1);
    if (t->strides) {
        strides.assign(t->strides, t->strides + t->ndim);
    } else {
        for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    }
    for (size_t i = 0; i < shape.size(); ++i)
        if (shape[i] > 1 && strides[i] < 0)
            raise_invalid_shape(context(lt) + "negative strides can't be taken");
    check_elements(lt, shape, strides);
    memory->data = static_cast<char *>(t->data) + t->byte_offset;
    memory->bytes = required_bytes(lt);
    if (memory->bytes) {
        check_not_null(t->data, lt);
        check_alignment(memory->data, lt);
    }
    return memory;
}

memory_ptr from_address(py::handle source, const logical_tensor &lt) {
    auto memory = std::make_shared<memory_block>();
    memory->owner = py::none();
    const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(source.ptr()));
    if (!number) throw py::error_already_set();
    const auto address = PyLong_AsUnsignedLongLong(number.ptr());
    if (PyErr_Occurred()) {
        PyErr_Clear();
        raise_invalid_arguments(
                context(lt) + "an address must fit into 64 bits and not be negative");
    }
    memory->data = reinterpret_cast<void *>(address);
    memory->bytes = required_bytes(lt);
    if (memory->bytes == 0) return memory;
    check_not_null(memory->data, lt);
    const address_range range = address_range_of(memory->data, memory->bytes);
    if (!range.readable)
        raise_invalid_arguments(context(lt) + "the " + std::to_string(memory->bytes)
                + " bytes at address " + std::to_string(address) + " are not mapped memory");
    memory->writable = range.writable;
    check_alignment(memory->data, lt);
    return memory;
}

void require_host_memory(const memory_block &memory, const logical_tensor &lt) {
    if (!memory.on_host)
        raise_invalid_arguments(context(lt) + "its memory is a device's own, which the host can't "
                "read; copy it first, for example with sycl_interop.copy_to_host");
    wait_for_writer(memory);
}

// Something of Python's that reads memory whenever it likes.
class view_of_memory {
public:
    explicit view_of_memory(memory_ptr memory) : memory_(std::move(memory)) { ++memory_->views; }
    ~view_of_memory() { --memory_->views; }
    view_of_memory(const view_of_memory &) = delete;
    view_of_memory &operator=(const view_of_memory &) = delete;
    const memory_block &memory() const { return *memory_; }

private:
    memory_ptr memory_;
};

struct dlpack_context {
    view_of_memory view;
    dims shape;
    dims strides;
};

void fill_dlpack(dlpack::tensor &t, dlpack_context &context, const dtype_info &info,
        std::pair<int, int> device) {
    t.data = context.view.memory().data;
    t.device = {device.first, device.second};
    t.ndim = static_cast<int32_t>(context.shape.size());
    t.dtype = {static_cast<uint8_t>(info.dlpack_code), static_cast<uint8_t>(info.bits), 1};
    t.shape = context.shape.data();
    t.strides = context.strides.data();
    t.byte_offset = 0;
}

template <typename Managed>
void delete_managed(Managed *managed) {
    // The consumer may drop it on any thread; the owner inside is a Python object.
    if (Py_IsInitialized()) {
        py::gil_scoped_acquire gil;
        delete static_cast<dlpack_context *>(managed->manager_ctx);
    }
    delete managed;
}

template <typename Managed>
py::capsule make_capsule(Managed *managed, const char *name) {
    managed->deleter = delete_managed<Managed>;
    PyObject *capsule = PyCapsule_New(managed, name, [](PyObject *self) {
        // A consumer renames the capsule when it takes the tensor over.
        const char *current = PyCapsule_GetName(self);
        if (!current || std::string(current).rfind("used_", 0) == 0) return;
        auto *m = static_cast<Managed *>(PyCapsule_GetPointer(self, current));
        if (m) m->deleter(m);
    });
    if (!capsule) throw py::error_already_set();
    return py::reinterpret_steal<py::capsule>(capsule);
}

}  // namespace

memory_ptr memory_from_python(py::handle source, const logical_tensor &lt, bool of_sycl) {
    required_bytes(lt);  // raises early, in terms of the logical tensor
    if (py::isinstance<py::array>(source))
        return from_array(py::reinterpret_borrow<py::array>(source), lt, false);
    if (is_integer(source) && !py::hasattr(source, "__dlpack__")) return from_address(source, lt);
    if (py::hasattr(source, "__dlpack__") && py::hasattr(source, "__dlpack_device__"))
        return from_dlpack(source, lt, of_sycl);
    if (PyObject_CheckBuffer(source.ptr())) {
        const auto view = py::reinterpret_steal<py::object>(PyMemoryView_FromObject(source.ptr()));
        if (!view) throw py::error_already_set();  // a released one, for example
        const py::array array = py::module_::import("numpy").attr("asarray")(view);
        return from_array(array, lt, true);
    }
    throw py::type_error(context(lt)
            + "expected a NumPy array, a DLPack producer, a buffer or an integer address, got "
            + py::repr(py::type::of(source)).cast<std::string>());
}

py::array numpy_view(const memory_ptr &memory, const logical_tensor &lt) {
    require_host_memory(*memory, lt);
    return array_over(memory, lt);
}

py::array array_over(const memory_ptr &memory, const logical_tensor &lt) {
    // The array's base is the memory, not the tensor: a tensor may be given other memory later.
    const py::capsule base(new view_of_memory(memory),
            [](void *pointer) { delete static_cast<view_of_memory *>(pointer); });
    std::vector<py::ssize_t> shape, strides;
    py::dtype dtype = py::dtype("uint8");
    if (is_opaque(lt) || is_packed(lt)) {
        shape.push_back(static_cast<py::ssize_t>(memory->bytes));
        strides.push_back(1);
    } else {
        dtype = numpy_dtype(lt.dtype());
        for (int64_t d : lt.shape()) shape.push_back(d);
        if (lt.ndims() > 0)
            for (int64_t s : lt.strides())
                strides.push_back(s * static_cast<py::ssize_t>(item_bytes(lt)));
    }
    py::array view(dtype, shape, strides, memory->data, base);
    if (!memory->writable) view.attr("setflags")(py::arg("write") = false);
    return view;
}

bool is_usm(py::handle source) {
    if (py::isinstance<py::array>(source)) return false;
    if (py::hasattr(source, "__dlpack__") && py::hasattr(source, "__dlpack_device__"))
        return dlpack_device_type(source) == dlpack::device_sycl;
    return py::hasattr(source, "__sycl_usm_array_interface__")
            && !PyObject_CheckBuffer(source.ptr());
}

std::pair<int, int> dlpack_device_of(const memory_block &memory, const logical_tensor &lt) {
    if (!memory.usm.kind.empty() && memory.usm.device_id >= 0)
        return {dlpack::device_sycl, memory.usm.device_id};
    if (memory.on_host) return {dlpack::device_cpu, 0};
    throw py::buffer_error(context(lt) + "its memory is a device's own, and not of a SYCL device's "
            "default context, which is all that DLPack can name");
}

py::capsule dlpack_capsule(const memory_ptr &memory, const logical_tensor &lt,
        const py::object &max_version, const py::object &device) {
    std::pair<int, int> where = dlpack_device_of(*memory, lt);
    if (!device.is_none() && !py::make_tuple(where.first, where.second).equal(device)) {
        if (!memory->on_host || !py::make_tuple(int(dlpack::device_cpu), 0).equal(device))
            throw py::buffer_error(context(lt) + "the memory is on "
                    + (where.first == dlpack::device_cpu ? "the CPU" : "a SYCL device")
                    + ", DLPack device (" + std::to_string(where.first) + ", "
                    + std::to_string(where.second) + "), dl_device asks for "
                    + py::repr(device).cast<std::string>());
        where = {dlpack::device_cpu, 0};
    }
    wait_for_writer(*memory);
    const auto &info = info_of(lt.dtype());
    if (is_opaque(lt) || is_packed(lt) || info.dlpack_code < 0)
        throw py::buffer_error(context(lt) + "DLPack can't describe this data type or layout");
    const bool versioned =
            !max_version.is_none() && max_version.cast<py::tuple>()[0].cast<int>() >= 1;
    if (!memory->writable && !versioned)
        throw py::buffer_error(context(lt) + "read-only memory needs a consumer of DLPack 1.0");
    std::unique_ptr<dlpack_context> holder(new dlpack_context{
            view_of_memory(memory), lt.shape(), lt.ndims() > 0 ? lt.strides() : dims{}});
    if (versioned) {
        auto *managed = new dlpack::managed_versioned{};
        managed->version = {1, 0};
        managed->flags = memory->writable ? 0 : dlpack::flag_read_only;
        fill_dlpack(managed->dl_tensor, *holder, info, where);
        managed->manager_ctx = holder.release();
        return make_capsule(managed, "dltensor_versioned");
    }
    auto *managed = new dlpack::managed{};
    fill_dlpack(managed->dl_tensor, *holder, info, where);
    managed->manager_ctx = holder.release();
    return make_capsule(managed, "dltensor");
}

py::dict usm_array_interface(const memory_ptr &memory, const logical_tensor &lt) {
    if (memory->usm.kind.empty())
        throw py::attribute_error(context(lt) + "its memory is not SYCL's");
    const bool typed = !is_opaque(lt) && !is_packed(lt);
    const py::dtype dtype = typed ? numpy_dtype(lt.dtype()) : py::dtype("uint8");
    // The interface names types as NumPy does, which has none of bf16 and the 8-bit floats.
    const auto name = dtype.attr("str").cast<std::string>();
    if (std::string("biufc").find(dtype.kind()) == std::string::npos
            || !py::dtype(name).equal(dtype))
        throw py::attribute_error(context(lt) + "SYCL's array interface has no such data type");
    wait_for_writer(*memory);
    memory->address_is_known = true;
    py::dict made;
    made["data"] = py::make_tuple(reinterpret_cast<uintptr_t>(memory->data), !memory->writable);
    made["shape"] = typed ? py::tuple(py::cast(lt.shape())) : py::make_tuple(memory->bytes);
    made["strides"] = typed && lt.ndims() > 0 ? py::object(py::tuple(py::cast(lt.strides())))
                                              : py::object(py::none());
    made["typestr"] = name;
    made["version"] = 1;
    made["offset"] = 0;
    made["syclobj"] = memory->usm.sycl_object;
    return made;
}

}  // namespace ogp
