#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "meshwright/v1/service.pb.h"
#include "search_space/base/units.h"

namespace meshwright {

// Returns, for example, "searching: 1,234,567 of 9,876,543 plans (12.5 %), best 21.3 s".
std::string ProgressText(const v1::Progress& progress);

// Returns the text with the time since the phase began and the time that is left at the same pace:
// "trials: 2 of at most 8 plans (25.0 %), best 372 ms; 3 min 20 s, about 10 min left". The status
// of a job is last.
std::string ProgressText(const v1::Progress& progress, Seconds elapsed);

// A line on stderr that is overwritten; silent if stderr is no terminal. The line has the time, and
// is therefore also written anew once a second.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // clears the line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(const v1::Progress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  void Tick(const std::stop_token& end);
  void Draw();  // under the lock

  const bool is_shown_;
  std::string last_job_status_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<v1::Progress> shown_;
  Clock::time_point phase_start_ = Clock::now();
  std::jthread clock_;  // last: it uses the members above
};

}  // namespace meshwright
