#include "server/rpc/services/answer_margin.h"

#include <algorithm>

namespace meshwright {

AnswerMargin::AnswerMargin() { needed_.fill(kFirst); }

AnswerMargin::Duration AnswerMargin::For(Duration total) const {
  const std::lock_guard lock(mutex_);
  const Duration longest = *std::ranges::max_element(needed_);
  return std::min<Duration>(total / 2, std::max<Duration>(kLeast, longest + longest / 4));
}

void AnswerMargin::Note(Duration needed) {
  const std::lock_guard lock(mutex_);
  needed_[next_] = std::clamp<Duration>(needed, Duration(0), kMost);
  next_ = (next_ + 1) % needed_.size();
}

}  // namespace meshwright
