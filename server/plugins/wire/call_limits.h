#pragma once

#include <chrono>
#include <stop_token>

namespace meshwright {

// How long a call to a model may take, and when it is cancelled.
struct CallLimits {
  std::chrono::milliseconds timeout{10'000};
  std::stop_token cancel = {};
  bool with_breakdown = false;
};

}  // namespace meshwright
