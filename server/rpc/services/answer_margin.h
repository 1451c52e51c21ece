#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <mutex>

namespace meshwright {

// The time that is reserved before a call's deadline, in which the search stops, the answer is
// recorded and its client gets it. It is learnt from what the last answers needed that used up
// their time. May be used from any thread.
class AnswerMargin {
 public:
  using Duration = std::chrono::system_clock::duration;

  AnswerMargin();

  // Returns the margin of a call that has `total` to its deadline: a quarter more than the longest
  // of the last kRemembered times, and at least kLeast; but at most half of `total`, so that the
  // search has time too.
  [[nodiscard]] Duration For(Duration total) const;

  // Notes how long an answer was ready after its search had to end.
  void Note(Duration needed);

  static constexpr std::size_t kRemembered = 64;
  static constexpr std::chrono::milliseconds kLeast{5};
  static constexpr std::chrono::milliseconds kFirst{40};  // before anything is known
  static constexpr std::chrono::seconds kMost{1};         // of a time that is noted

 private:
  mutable std::mutex mutex_;
  std::array<Duration, kRemembered> needed_ = {};
  std::size_t next_ = 0;
};

}  // namespace meshwright
