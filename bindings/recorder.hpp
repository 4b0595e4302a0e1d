// When the steps of models ran, taken while a profile is active.
#pragma once

#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "executor.hpp"

namespace ogp {

// What one profile gathers. All of it happens with the GIL held.
class recorder : public std::enable_shared_from_this<recorder> {
public:
    explicit recorder(size_t max_calls) : max_calls_(max_calls) {}

    void start();
    void stop();
    bool active() const { return active_; }

    // One call of a model: ticks at its begin and after each of its steps.
    void add(const executor &x, const std::vector<uint64_t> &ticks) noexcept;

    using shapes = std::vector<std::vector<int64_t>>;
    using steps = std::vector<std::tuple<std::string, std::string, std::string>>;
    // Of each model that ran: name, shapes of its inputs, and of each step its name, whether oneDNN
    // runs it and why it is as it is.
    std::vector<std::tuple<std::string, shapes, steps>> models() const;
    // Of each call: the number of its model, its thread, and how many times of `seconds` come
    // before its own.
    py::array_t<uint64_t> calls() const;
    // Since the first start: of each call its begin and the end of each of its steps.
    py::array_t<double> seconds() const;

    size_t dropped() const { return dropped_; }

private:
    struct model {
        std::string name;
        shapes inputs;
        recorder::steps steps;
    };
    struct call {
        uint64_t model, thread, first;
    };
    uint64_t number_of(const executor &x);

    const size_t max_calls_;
    bool active_ = false;
    std::vector<model> models_;
    // An address may be used again by another executor, which the weak pointer tells.
    std::unordered_map<const executor *, std::pair<std::weak_ptr<const executor>, uint64_t>>
            numbers_;
    std::vector<call> calls_;
    std::vector<uint64_t> ticks_;
    uint64_t origin_ = 0;
    size_t dropped_ = 0;
    const tick_rate rate_;
};

// Whether any profile is active; with the GIL held.
bool recording();
// Tells all active profiles of a call.
void record(const executor &x, const std::vector<uint64_t> &ticks) noexcept;

}  // namespace ogp
