#include "cli/reports/progress_line.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/program/terminal.h"
#include "cli/reports/print_answer.h"
#include "cli/reports/words.h"

namespace meshwright {
namespace {

constexpr char kClearLine[] = "\r\x1b[K";  // ECMA-48: erase to the end of the line

}  // namespace

std::string ProgressText(const v1::Progress& progress) {
  std::string text = progress.phase();
  if (progress.space_count() > 0) {
    const double share = static_cast<double>(progress.considered_count()) /
                         static_cast<double>(progress.space_count());
    text += fmt::format(": {} of {} plans ({})", CountText(progress.considered_count()),
                        CountText(progress.space_count()), PercentText(share));
  }
  if (progress.best_step_time_seconds() > 0) {
    text += ", best " + SecondsText(progress.best_step_time_seconds());
  }
  if (!progress.job_status().empty()) text += "; " + progress.job_status();
  return text;
}

ProgressLine::ProgressLine() : is_shown_(StderrIsTerminal()) {}

ProgressLine::~ProgressLine() {
  if (is_shown_) fmt::print(stderr, "{}", kClearLine);
}

void ProgressLine::Show(const v1::Progress& progress) {
  if (!is_shown_) {
    // In a log, each reason for which a job waits appears once.
    if (progress.job_status().empty() || progress.job_status() == last_job_status_) return;
    last_job_status_ = progress.job_status();
    PrintNote(last_job_status_);
    return;
  }
  fmt::print(stderr, "{}{}", kClearLine, ProgressText(ForTerminal(progress)));
  std::fflush(stderr);
}

}  // namespace meshwright
