#include "server/rpc/services/search_time.h"

#include <fmt/format.h>

#include <algorithm>

namespace meshwright {
namespace {

using SystemClock = std::chrono::system_clock;

// The time of a call without a deadline, and the longest of one with, so that none occupies one of
// the few threads for ever (docs/limits.md).
constexpr std::chrono::seconds kDefaultDeadline(30);
constexpr std::chrono::seconds kMaxDeadline = std::chrono::minutes(10);
// The part of the time that is reserved for recording and sending the answer, if that is more than
// what the last answers needed.
constexpr double kMarginRatio = 0.05;

}  // namespace

SearchTime SearchTimeOf(const grpc::CallbackServerContext& context, const AnswerMargin& margin,
                        Longest longest) {
  const SystemClock::time_point now = SystemClock::now();
  SearchTime time;
  SystemClock::duration total = kDefaultDeadline;
  // gRPC's infinite deadline is the end of time, and subtracting from it overflows.
  const bool has_deadline = context.deadline() < now + std::chrono::hours(24 * 365);
  if (has_deadline) {
    total = context.deadline() - now;
  } else {
    time.note = fmt::format("the call had no deadline, so its search ended after {} s",
                            kDefaultDeadline.count());
  }
  if (longest == Longest::kLimited && total > kMaxDeadline) {
    total = kMaxDeadline;
    time.note = fmt::format("the search ended after {} s, the most that a call may take",
                            kMaxDeadline.count());
  }
  const auto part = std::chrono::duration_cast<SystemClock::duration>(total * kMarginRatio);
  time.end = now + total - std::max(margin.For(total), part);
  return time;
}

}  // namespace meshwright
