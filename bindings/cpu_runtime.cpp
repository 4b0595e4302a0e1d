#include "cpu_runtime.hpp"

#include <dlfcn.h>

#include <atomic>
#include <thread>

#include "arguments.hpp"
#include "errors.hpp"

namespace ogp {
namespace {

struct runtime {
    int (*get)() = nullptr;
    void (*set)(int) = nullptr;
    int (*pause_all)(int) = nullptr;  // GNU's only: LLVM's also ends the threads of others
};

// OpenMP's functions as the linked oneDNN sees them: a process may hold several OpenMP libraries.
const runtime &openmp() {
    static const runtime found = [] {
        runtime r;
#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
        Dl_info info;
        if (!dladdr(reinterpret_cast<void *>(&dnnl_version), &info) || !info.dli_fname) return r;
        void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        if (!library) return r;
        r.get = reinterpret_cast<int (*)()>(dlsym(library, "omp_get_max_threads"));
        r.set = reinterpret_cast<void (*)(int)>(dlsym(library, "omp_set_num_threads"));
        if (!dlsym(library, "__kmpc_fork_call"))
            r.pause_all = reinterpret_cast<int (*)(int)>(dlsym(library, "omp_pause_resource_all"));
        dlclose(library);
#endif
        return r;
    }();
    return found;
}

// What set_num_threads said; 0: nothing yet.
std::atomic<int> chosen{0};

}  // namespace

bool threads_can_be_set() { return openmp().get && openmp().set; }

std::string no_engine_hint() {
#if DNNL_CPU_RUNTIME == DNNL_RUNTIME_SYCL
    return "; this oneDNN runs on SYCL, which finds the CPU through OpenCL: set OCL_ICD_FILENAMES to "
           "Intel's libintelocl.so before Python starts";
#else
    return "";
#endif
}

bool runs_synchronously(dnnl::engine::kind kind) {
#if DNNL_CPU_RUNTIME == DNNL_RUNTIME_OMP
    return kind == dnnl::engine::kind::cpu;
#else
    (void)kind;
    return false;
#endif
}

bool survives_fork(dnnl::engine::kind kind) {
    return runs_synchronously(kind) && threads_can_be_set();
}

void end_idle_threads() noexcept {
    constexpr int hard = 2;  // omp_pause_hard
    if (openmp().pause_all) openmp().pause_all(hard);
}

int max_threads() noexcept {
    if (has_one_thread()) return 1;
    return openmp().get ? openmp().get() : 0;
}

int at_most(int count) noexcept { return max_threads() > count ? count : no_threads; }

void threads_scope::set(int count) noexcept {
    if (has_one_thread()) count = 1;
    if (count <= 0 || !threads_can_be_set()) return;
    const int now = openmp().get();
    if (now == count) return;
    before_ = now;
    openmp().set(count);
}

void threads_scope::set_back() noexcept { openmp().set(before_); }

void init_cpu_runtime(py::module_ &m) {
    m.def(
            "num_threads",
            [] {
                if (has_one_thread()) return 1;
                if (const int n = chosen) return n;
                if (const int n = max_threads()) return n;
                return static_cast<int>(std::thread::hardware_concurrency());
            },
            "How many threads a model compiled now will use: what `set_num_threads` said, or\n"
            "OpenMP's own number (``OMP_NUM_THREADS``, or the number of CPUs, but no more than a\n"
            "container's quota has). 1 in a process forked from one in which models ran with more.");
    m.def(
            "set_num_threads",
            [](index_arg count) {
                if (!threads_can_be_set())
                    raise_status(dnnl_unimplemented,
                            "set_num_threads: the linked oneDNN does not run on OpenMP, so its "
                            "runtime decides");
                if (count.value < 1 || count.value > 4096)
                    raise_invalid_arguments("set_num_threads: count must be from 1 to 4096, got "
                            + std::to_string(count.value));
                chosen = static_cast<int>(count.value);
            },
            py::arg("count"),
            "Sets how many threads models use that are compiled from now on, on any thread. A model\n"
            "keeps the number that it was compiled for. It has no effect where `num_threads` says 1\n"
            "because of a fork.\n\n"
            "Raises\n------\nInvalidArgumentsError\n    `count` is less than 1.\n"
            "UnimplementedError\n    The linked oneDNN does not run on OpenMP.");

    struct compiling_with {
        int count;
        std::unique_ptr<threads_scope> scope;
    };
    py::class_<compiling_with>(m, "_compiling_with",
            "A ``with`` block in which oneDNN compiles for a number of threads; 0 leaves it as it is.")
            .def(py::init([](index_arg count) {
                return compiling_with{static_cast<int>(count.value), nullptr};
            }),
                    py::arg("count"))
            .def("__enter__",
                    [](compiling_with &self) {
                        // Raises before anything is compiled where nothing can be.
                        const inside_onednn inside(1, [] { return std::string("compile"); });
                        self.scope = std::make_unique<threads_scope>(self.count);
                    })
            .def(
                    "__exit__",
                    [](compiling_with &self, const py::object &, const py::object &,
                            const py::object &) { self.scope.reset(); },
                    py::arg("type"), py::arg("value"), py::arg("traceback"));
}

}  // namespace ogp
