#include "recorder.hpp"

#include <algorithm>

namespace ogp {
namespace {

// Only touched with the GIL held. Never destroyed: what it holds may need the interpreter.
std::vector<std::shared_ptr<recorder>> &active_recorders() {
    static auto *recorders = new std::vector<std::shared_ptr<recorder>>();
    return *recorders;
}

}  // namespace

bool recording() { return !active_recorders().empty(); }

void record(const executor &x, const std::vector<uint64_t> &ticks) noexcept {
    for (const auto &r : active_recorders()) r->add(x, ticks);
}

void recorder::start() {
    if (active_) raise_invalid_arguments("profile: it is active already");
    active_recorders().push_back(shared_from_this());
    active_ = true;
    if (!origin_) origin_ = ticks();
}

void recorder::stop() {
    auto &all = active_recorders();
    all.erase(std::remove(all.begin(), all.end(), shared_from_this()), all.end());
    active_ = false;
}

uint64_t recorder::number_of(const executor &x) {
    const auto found = numbers_.find(&x);
    if (found != numbers_.end() && !found->second.first.expired()) return found->second.second;
    model m;
    m.name = x.name;
    for (const edge &e : x.inputs) m.inputs.push_back(e.lt.shape());
    for (const step &s : x.steps) m.steps.emplace_back(s.name, s.implementation, s.why);
    const uint64_t number = models_.size();
    models_.push_back(std::move(m));
    numbers_.insert_or_assign(&x, std::pair(x.weak_from_this(), number));
    return number;
}

void recorder::add(const executor &x, const std::vector<uint64_t> &ticks) noexcept {
    const size_t kept = ticks_.size();
    try {
        // A call that began before the profile would end up at negative times.
        if (calls_.size() < max_calls_ && ticks.front() >= origin_) {
            ticks_.insert(ticks_.end(), ticks.begin(), ticks.end());
            calls_.push_back({number_of(x), PyThread_get_thread_ident(), kept});
            return;
        }
    } catch (const std::bad_alloc &) {
        ticks_.resize(kept);
    }
    ++dropped_;
}

std::vector<std::tuple<std::string, recorder::shapes, recorder::steps>> recorder::models() const {
    std::vector<std::tuple<std::string, shapes, steps>> made;
    for (const model &m : models_) made.emplace_back(m.name, m.inputs, m.steps);
    return made;
}

py::array_t<uint64_t> recorder::calls() const {
    py::array_t<uint64_t> made({calls_.size(), size_t(3)});
    auto rows = made.mutable_unchecked<2>();
    for (size_t i = 0; i < calls_.size(); ++i) {
        const auto row = static_cast<py::ssize_t>(i);
        rows(row, 0) = calls_[i].model;
        rows(row, 1) = calls_[i].thread;
        rows(row, 2) = calls_[i].first;
    }
    return made;
}

py::array_t<double> recorder::seconds() const {
    constexpr uint64_t many = uint64_t(1) << 40;
    const double per_tick = rate_.seconds(many) / static_cast<double>(many);
    py::array_t<double> made(static_cast<py::ssize_t>(ticks_.size()));
    auto values = made.mutable_unchecked<1>();
    for (size_t i = 0; i < ticks_.size(); ++i)
        values(static_cast<py::ssize_t>(i)) = static_cast<double>(ticks_[i] - origin_) * per_tick;
    return made;
}

void init_recorder(py::module_ &m) {
    py::class_<recorder, std::shared_ptr<recorder>>(
            m, "_recorder", "The times at which steps of models ran, for `profile`.")
            .def(py::init<size_t>(), py::arg("max_calls"))
            .def("start", &recorder::start, "Gathers from now on.")
            .def("stop", &recorder::stop, "Gathers no more.")
            .def_property_readonly("active", &recorder::active, "Whether it gathers.")
            .def_property_readonly(
                    "dropped", &recorder::dropped, "Calls beyond `max_calls`, which are not kept.")
            .def("models", &recorder::models,
                    "Of each model: name, shapes of inputs, (name, whether oneDNN runs it, why it is "
                    "as it is) a step.")
            .def("calls", &recorder::calls,
                    "A row a call: number of its model, thread, where its times begin.")
            .def("seconds", &recorder::seconds,
                    "Since the first start: of each call its begin and the end of each step.");
}

}  // namespace ogp
