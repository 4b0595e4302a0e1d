#include "diagnosis.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "call.hpp"
#include "reason.hpp"

namespace ogp {
namespace {

// A second copy of the linked library. It must be another file to the dynamic linker, which knows
// files by inode: an anonymous one in memory.
void *load_copy() {
    Dl_info info;
    if (!dladdr(reinterpret_cast<void *>(&dnnl_version), &info) || !info.dli_fname) return nullptr;
    const int source = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
    if (source < 0) return nullptr;
    struct stat facts{};
    const int copy = memfd_create("onednn_diagnosis", MFD_CLOEXEC);
    bool copied = copy >= 0 && fstat(source, &facts) == 0;
    for (off_t done = 0; copied && done < facts.st_size;)
        copied = sendfile(copy, source, &done, static_cast<size_t>(facts.st_size - done)) > 0;
    close(source);
    void *library = nullptr;
    if (copied)
        library = dlopen(("/proc/self/fd/" + std::to_string(copy)).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (copy >= 0) close(copy);
    return library;
}

class second_library {
public:
    static second_library *get() {
        // Never unloaded: OpenMP's threads may hold on to its code.
        static auto *only = new second_library;
        return only->handle_ ? only : nullptr;
    }

    template <typename Function>
    Function *find(Function *, const char *name) const {
        return reinterpret_cast<Function *>(dlsym(handle_, name));
    }

    std::mutex mutex;

private:
    second_library() : handle_(load_copy()) {
        if (!handle_) return;
        const auto create = find(&dnnl_engine_create, "dnnl_engine_create");
        const auto set_capacity = find(&dnnl_graph_set_compiled_partition_cache_capacity,
                "dnnl_graph_set_compiled_partition_cache_capacity");
        if (!create || !set_capacity) {
            handle_ = nullptr;
            return;
        }
        // A compilation that throws leaves an entry that points to what is gone (partition.cpp).
        set_capacity(0);
        // The variable is read at the first report: set it, provoke one, put it back.
        const char *name = "ONEDNN_VERBOSE";
        const char *previous = std::getenv(name);
        const std::string saved = previous ? previous : "";
        setenv(name, "check", 1);
        reason_capture quiet;
        quiet.discard_all();
        dnnl_engine_t none = nullptr;
        create(&none, dnnl_cpu, static_cast<size_t>(-1));
        if (previous)
            setenv(name, saved.c_str(), 1);
        else
            unsetenv(name);
    }

    void *handle_;
};

// The function of the second library that has the same name and type as the first one's.
#define OGP_SECOND(library, function) (library).find(&function, #function)

struct attr_setter {
    const second_library &library;
    dnnl_graph_op_t target;
    dnnl_graph_op_attr_t name;

    dnnl_status_t operator()(int64_t v) const {
        return OGP_SECOND(library, dnnl_graph_op_set_attr_s64)(target, name, &v, 1);
    }
    dnnl_status_t operator()(float v) const {
        return OGP_SECOND(library, dnnl_graph_op_set_attr_f32)(target, name, &v, 1);
    }
    dnnl_status_t operator()(bool v) const {
        const auto byte = static_cast<uint8_t>(v);
        return OGP_SECOND(library, dnnl_graph_op_set_attr_bool)(target, name, &byte, 1);
    }
    dnnl_status_t operator()(const std::string &v) const {
        return OGP_SECOND(library, dnnl_graph_op_set_attr_str)(
                target, name, v.c_str(), v.size() + 1);
    }
    dnnl_status_t operator()(const std::vector<int64_t> &v) const {
        return OGP_SECOND(library, dnnl_graph_op_set_attr_s64)(target, name, v.data(), v.size());
    }
    dnnl_status_t operator()(const std::vector<float> &v) const {
        return OGP_SECOND(library, dnnl_graph_op_set_attr_f32)(target, name, v.data(), v.size());
    }
};

// A graph in the second library, built step by step until a step fails.
class replay {
public:
    replay(const second_library &library, dnnl::engine::kind kind) : library_(library) {
        const auto create = OGP_SECOND(library_, dnnl_graph_graph_create);
        ok_ = create(&graph_, static_cast<dnnl_engine_kind_t>(kind)) == dnnl_success;
    }
    ~replay() {
        for (auto *p : partitions_) OGP_SECOND(library_, dnnl_graph_partition_destroy)(p);
        if (compiled_) OGP_SECOND(library_, dnnl_graph_compiled_partition_destroy)(compiled_);
        if (engine_) OGP_SECOND(library_, dnnl_engine_destroy)(engine_);
        if (graph_) OGP_SECOND(library_, dnnl_graph_graph_destroy)(graph_);
    }
    replay(const replay &) = delete;
    replay &operator=(const replay &) = delete;

    void add(const op &o) {
        if (!ok_) return;
        dnnl_graph_op_t made = nullptr;
        ok_ = OGP_SECOND(library_, dnnl_graph_op_create)(
                      &made, o.id, static_cast<dnnl_graph_op_kind_t>(o.kind), o.name.c_str())
                == dnnl_success;
        for (const auto &lt : o.inputs)
            ok_ = ok_
                    && OGP_SECOND(library_, dnnl_graph_op_add_input)(made, &lt.data)
                            == dnnl_success;
        for (const auto &lt : o.outputs)
            ok_ = ok_
                    && OGP_SECOND(library_, dnnl_graph_op_add_output)(made, &lt.data)
                            == dnnl_success;
        for (const auto &[name, value] : o.attrs)
            ok_ = ok_
                    && std::visit(
                               attr_setter{library_, made, static_cast<dnnl_graph_op_attr_t>(name)},
                               value)
                            == dnnl_success;
        ok_ = ok_ && OGP_SECOND(library_, dnnl_graph_add_op)(graph_, made) == dnnl_success;
        if (made) OGP_SECOND(library_, dnnl_graph_op_destroy)(made);
    }

    void set_fpmath(const graph_record &record) {
        ok_ = ok_
                && OGP_SECOND(library_, dnnl_graph_graph_set_fpmath_mode)(graph_,
                           static_cast<dnnl_fpmath_mode_t>(record.fpmath),
                           record.fpmath_applies_to_int)
                        == dnnl_success;
    }

    void compile(const std::vector<size_t> &op_ids, const std::vector<logical_tensor> &inputs,
            const std::vector<logical_tensor> &outputs, dnnl_graph_partition_policy_t policy,
            dnnl::engine::kind kind) {
        ok_ = ok_ && OGP_SECOND(library_, dnnl_graph_graph_finalize)(graph_) == dnnl_success
                && OGP_SECOND(library_, dnnl_graph_graph_filter)(graph_, policy) == dnnl_success;
        size_t count = 0;
        ok_ = ok_
                && OGP_SECOND(library_, dnnl_graph_graph_get_partition_num)(graph_, &count)
                        == dnnl_success;
        if (!ok_) return;
        partitions_.resize(count, nullptr);
        ok_ = OGP_SECOND(library_, dnnl_graph_graph_get_partitions)(
                      graph_, count, partitions_.data())
                == dnnl_success;
        for (auto *p : partitions_) {
            size_t size = 0;
            if (!ok_ || OGP_SECOND(library_, dnnl_graph_partition_get_op_num)(p, &size)) return;
            std::vector<size_t> ids(size);
            OGP_SECOND(library_, dnnl_graph_partition_get_ops)(p, size, ids.data());
            if (ids == op_ids) return compile(p, inputs, outputs, kind);
        }
    }

private:
    void compile(dnnl_graph_partition_t p, const std::vector<logical_tensor> &inputs,
            const std::vector<logical_tensor> &outputs, dnnl::engine::kind kind) {
        std::vector<const dnnl_graph_logical_tensor_t *> ins, outs;
        for (const auto &lt : inputs) ins.push_back(&lt.data);
        for (const auto &lt : outputs) outs.push_back(&lt.data);
        if (OGP_SECOND(library_, dnnl_engine_create)(&engine_,
                    static_cast<dnnl_engine_kind_t>(kind),
                    0) != dnnl_success
                || OGP_SECOND(library_, dnnl_graph_compiled_partition_create)(&compiled_, p)
                        != dnnl_success)
            return;
        OGP_SECOND(library_, dnnl_graph_partition_compile)(
                p, compiled_, ins.size(), ins.data(), outs.size(), outs.data(), engine_);
    }

    const second_library &library_;
    bool ok_ = false;
    dnnl_graph_graph_t graph_ = nullptr;
    std::vector<dnnl_graph_partition_t> partitions_;
    dnnl_graph_compiled_partition_t compiled_ = nullptr;
    dnnl_engine_t engine_ = nullptr;
};

template <typename Body>
std::string ask_without_gil(Body &&body) {
    auto *library = second_library::get();
    if (!library) return "";
    std::lock_guard<std::mutex> lock(library->mutex);
    reason_capture capture;
    capture.discard_all();
    try {
        body(*library);
    } catch (const std::exception &) {
        // As the first library did; what it printed before is still worth having.
    }
    return capture.reason();
}

template <typename Body>
std::string ask(Body &&body) {
    PyThreadState *thread = PyEval_SaveThread();
    const std::string reason = ask_without_gil(body);
    take_gil_again(thread);
    return reason;
}

}  // namespace

std::string diagnose_op(const op &o, dnnl::engine::kind kind) {
    return ask([&](const second_library &library) { replay(library, kind).add(o); });
}

std::string diagnose_compile(const graph_record &record, const std::vector<size_t> &op_ids,
        const std::vector<logical_tensor> &inputs, const std::vector<logical_tensor> &outputs,
        dnnl::engine::kind kind) {
    // An opaque layout is an index into the first library's tables.
    const auto opaque = [](const logical_tensor &lt) { return lt.layout() == layout_type::opaque; };
    if (std::any_of(inputs.begin(), inputs.end(), opaque)) return "";
    return ask([&](const second_library &library) {
        const auto policy = op_ids.size() == 1 ? dnnl_graph_partition_policy_debug
                                               : dnnl_graph_partition_policy_fusion;
        replay again(library, kind);
        again.set_fpmath(record);
        for (const auto &[id, o] : record.ops) again.add(o);
        again.compile(op_ids, inputs, outputs, policy, kind);
    });
}

}  // namespace ogp
