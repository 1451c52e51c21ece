#include "cli/reports/progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "cli/program/terminal.h"
#include "cli/reports/print_answer.h"
#include "cli/reports/text_width.h"
#include "cli/reports/words.h"
#include "search_space/base/count_text.h"

namespace meshwright {
namespace {

constexpr std::chrono::seconds kTick(1);

// Pieces of a progress line, in order.
struct ProgressParts {
  std::string counts = {};
  std::optional<double> done_ratio = {};  // of the phase
  std::string job = {};
};

ProgressParts PartsOf(const v1::Progress& progress) {
  ProgressParts parts = {.counts = progress.phase(), .job = progress.job_status()};
  const bool has_limit = progress.limit_count() > 0;
  const std::int64_t all = has_limit ? progress.limit_count() : progress.space_count();
  if (all > 0) {
    parts.done_ratio = static_cast<double>(progress.considered_count()) / static_cast<double>(all);
    parts.counts +=
        fmt::format(": {} of {}{} plans ({})", CountText(progress.considered_count()),
                    has_limit ? "at most " : "", CountText(all), PercentText(*parts.done_ratio));
  }
  if (progress.best_step_time_seconds() > 0) {
    parts.counts += ", best " + SecondsText(progress.best_step_time_seconds());
  }
  return parts;
}

// Returns the time in words: "12 s", "3 min 20 s", "2 h 10 min".
std::string TimeText(Seconds time) {
  const auto seconds = static_cast<std::int64_t>(time.count());
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 3600;
  if (seconds < kMinute) return fmt::format("{} s", seconds);
  if (seconds < kHour) return fmt::format("{} min {} s", seconds / kMinute, seconds % kMinute);
  return fmt::format("{} h {} min", seconds / kHour, seconds % kHour / kMinute);
}

// Returns nothing as long as too little is done to tell.
std::string LeftText(std::optional<double> done_ratio, Seconds elapsed) {
  constexpr double kLeastDone = 0.02;
  constexpr Seconds kLeastElapsed(1);
  if (!done_ratio || *done_ratio < kLeastDone || elapsed < kLeastElapsed) return "";
  const double left = std::max(0.0, 1 / *done_ratio - 1) * elapsed.count();
  return fmt::format(", about {} left", TimeText(Seconds(left)));
}

}  // namespace

std::string ProgressText(const v1::Progress& progress) {
  const ProgressParts parts = PartsOf(progress);
  return parts.job.empty() ? parts.counts : parts.counts + "; " + parts.job;
}

std::string ProgressText(const v1::Progress& progress, Seconds elapsed) {
  const ProgressParts parts = PartsOf(progress);
  std::string text =
      fmt::format("{}; {}{}", parts.counts, TimeText(elapsed), LeftText(parts.done_ratio, elapsed));
  return parts.job.empty() ? text : text + "; " + parts.job;
}

ProgressLine::ProgressLine() : is_shown_(StderrLineColumns().has_value()) {
  if (is_shown_) clock_ = std::jthread([this](const std::stop_token& end) { Tick(end); });
}

ProgressLine::~ProgressLine() {
  if (!is_shown_) return;
  clock_.request_stop();
  clock_.join();
  OverwriteStderrLine("");
}

void ProgressLine::Tick(const std::stop_token& end) {
  std::unique_lock lock(mutex_);
  while (!end.stop_requested()) {
    // Nothing but the end of the line's life wakes it before the time.
    changed_.wait_for(lock, end, kTick, [] { return false; });
    if (!end.stop_requested()) Draw();
  }
}

void ProgressLine::Draw() {
  const std::optional<int> columns = StderrLineColumns();
  if (!shown_.has_value() || !columns.has_value()) return;
  const std::string text = ProgressText(*shown_, Clock::now() - phase_start_);
  // Terminals break a line that fills their last column.
  OverwriteStderrLine(Shortened(text, static_cast<std::size_t>(std::max(1, *columns - 1))));
}

void ProgressLine::Show(const v1::Progress& progress) {
  if (!is_shown_) {
    // In a log, each reason for which a job waits appears once.
    if (progress.job_status().empty() || progress.job_status() == last_job_status_) return;
    last_job_status_ = progress.job_status();
    PrintNote(last_job_status_);
    return;
  }
  const std::lock_guard lock(mutex_);
  if (shown_.has_value() && shown_->phase() != progress.phase()) phase_start_ = Clock::now();
  shown_ = ForTerminal(progress);
  Draw();
}

}  // namespace meshwright
